// What the policy "exact" decides, before it is written down as a plan.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/memory.h"
#include "planning/exact/proof.h"
#include "planning/exact/streams.h"

namespace square::planning {

struct ExactSolution {
  std::vector<double> lp_rate;                // by group: what the linear program allows
  std::vector<std::vector<double>> lp_share;  // of it, by alternative, where there are several
  std::vector<PlanLevel> levels;
  std::optional<double> cost_bound_usd_per_hour;
  std::optional<Carried> carried;  // none: streams were not asked for
  // Where trees carry less than the program allows, its conceptual flows: columns with rates.
  std::vector<std::pair<Column, double>> flows;
};

// Lexicographic max-min. `memory`, if there is one, is aligned with the instance's overlay.
// Errors: as Generation::run(), solve_spanning().
Result<ExactSolution> solve_fair(const Instance& instance, bool streams, ExactMemory* memory);

// The required rates at the least cost. Errors: also FAILED_PRECONDITION, naming those
// that stand in the way, where the rates cannot be had together.
Result<ExactSolution> solve_cost(const Instance& instance, bool streams);

// How a generation must stop for the policy's gap and deadline.
GenerationOptions generation_options(const Instance& instance);

}  // namespace square::planning
