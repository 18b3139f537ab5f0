// Where a linear program would take too long: nearly optimal, with a certified gap, in bounded time.
#pragma once

#include "planning/exact/solution.h"

namespace square::planning {

// Multicasts or reductions to some of very many nodes, by very many sessions.
bool is_large(const Instance& instance);

// Lexicographic max-min over trees by exponential potentials instead of a program: rates that fit, levels and
// what cuts prove of them. It takes until all levels are found, kLongestSearch or the policy's deadline.
// Precondition: no redundancy. Errors: FAILED_PRECONDITION where no tree keeps the latency bounds.
Result<ExactSolution> solve_large(const Instance& instance, bool streams);

}  // namespace square::planning
