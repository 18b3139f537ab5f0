// Codes that lose nothing when relays or links are lost: more ways than a generation has blocks.
#pragma once

#include <optional>
#include <vector>

#include "planning/codes/code_design.h"
#include "planning/packing/digraph.h"

namespace square::planning {

// Ways to one destination beyond this are not used: a generation has as many blocks and sums at most.
inline constexpr int kMostRedundantWays = kMostCodeBlocks;

// Who is to get what from where, whichever `redundancy` ways are lost.
struct RedundantProblem {
  const Digraph* graph = nullptr;
  int root = 0;
  std::vector<int> terminals;
  int redundancy = 1;
};

// How many every terminal has, kMostRedundantWays at most.
int independent_way_count(const RedundantProblem& problem);

// K blocks and `redundancy` sums of all of them, each on one of `ways` = K + redundancy independent ways to
// every terminal, so that each link and each node in between carries one of them for a terminal at most. Any
// K decode. What ways of several terminals have in common is sent once, as far as they could be made to
// agree. Nothing where a terminal has fewer ways. Precondition: ways > redundancy.
std::optional<CodeDesign> redundant_code(const RedundantProblem& problem, int ways,
                                         const std::vector<double>& cost);

// Of all numbers of ways the one that costs least for what it carries. Nothing where some terminal has not
// more ways than may be lost.
std::optional<CodeDesign> cheapest_redundant_code(const RedundantProblem& problem, int most_ways,
                                                  const std::vector<double>& cost);

}  // namespace square::planning
