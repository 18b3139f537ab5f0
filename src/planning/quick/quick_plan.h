// A plan that fits, in milliseconds.
#pragma once

#include "planning/problem/problem.h"
#include "square/plan.h"
#include "square/status.h"

namespace square::planning {

// Feasible and fair over a few trees a session, with nothing proven; everything but
// solve_seconds. `problem` has no paths. Errors: those of make_instance(); FAILED_PRECONDITION for
// the objective of least cost, and where a collective would get nothing.
Result<Plan> quick_plan(const Problem& problem);

}  // namespace square::planning
