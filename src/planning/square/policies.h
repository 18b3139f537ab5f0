// The policy of the paper and its relatives: linear programs over chosen paths.
#pragma once

#include <memory>
#include <vector>

#include "planning/paths/feasible_paths.h"
#include "planning/policy.h"
#include "planning/problem/problem.h"

namespace square::planning {

// What they differ in.
struct PathRules {
  // Is every multicast one unicast a destination?
  bool splits_multicasts = false;
  // Do programs of kind (6) come before the one of kind (1), as many as the scenario asks for?
  bool takes_shots = true;
  Result<SessionPaths> (*paths)(const Scenario&, const std::vector<Session>&) = chosen_paths;
};
inline constexpr PathRules kSquare = {};
inline constexpr PathRules kMaxThroughput = {.takes_shots = false};
inline constexpr PathRules kShortestPath = {.paths = tree_paths};
inline constexpr PathRules kMultiCommodityFlow = {.splits_multicasts = true};

// Sessions and the paths that they may use. Errors: as expand_sessions() and the rules' paths.
Result<Problem> path_problem(const Scenario& scenario, const PathRules& rules);

// Each plan is made afresh.
std::unique_ptr<Policy> make_path_policy(const PathRules& rules);

}  // namespace square::planning
