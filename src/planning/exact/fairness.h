// Lexicographic max-min over all trees.
#pragma once

#include <vector>

#include "planning/exact/generation.h"
#include "planning/exact/memory.h"

namespace square::planning {

// One freezing level.
struct FairLevel {
  double level = 0.0;               // t
  std::vector<std::size_t> groups;  // those that stop here: g = w t
  Duals duals;                      // that prove the bound
  std::vector<double> demand_cost;  // under them
};

struct FairRates {
  std::vector<double> rate;  // by group: g
  std::vector<FairLevel> levels;
  MasterAnswer flows;  // what carries them
  bool late = false;   // the deadline came first: what was active then stopped there
  // Where each level's program ended.
  std::vector<ExactMemory::Program> programs;
};

// Maximises t with g >= w t for active groups and g >= its value for those that stopped;
// those whose dual is positive stop, and so on: routes stay free, no capacity is taken away
// (Nace and Pioro, 2008; Ogryczak and Sliwinski, 2006). With a `unit`, about the first t, the
// pool has columns for all already. With a memory, recalled into the pool, programs start
// where those of the last plan ended. Errors: as Generation::run().
Result<FairRates> fair_rates(Generation& generation, std::optional<double> unit = std::nullopt,
                             const ExactMemory* memory = nullptr);

}  // namespace square::planning
