// A plan that fits, in milliseconds.
#pragma once

#include "planning/exact/instance.h"
#include "planning/exact/solution.h"
#include "planning/problem/problem.h"
#include "planning/quick/filling.h"
#include "planning/quick/trees.h"
#include "square/plan.h"
#include "square/status.h"

namespace square::planning {

// Rates over trees as what is decided, a rounding below: with no levels and no conceptual flows.
ExactSolution solution_of(const Instance& instance, const Filled& filled,
                          const std::vector<std::vector<QuickTree>>& trees);

// How many trees a demand may have, by how many demands there are, and their links.
std::size_t most_trees(const Instance& instance, const std::vector<std::vector<QuickTree>>& trees);

// Feasible and fair over a few trees a session, with nothing proven; everything but
// solve_seconds. `problem` has no paths. Errors: those of make_instance(); FAILED_PRECONDITION for
// the objective of least cost, and where a collective would get nothing.
Result<Plan> quick_plan(const Problem& problem);

}  // namespace square::planning
