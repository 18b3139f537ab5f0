// What was decided, written down as a plan.
#pragma once

#include "planning/exact/solution.h"
#include "square/plan.h"

namespace square::planning {

// Everything but solve_seconds, headroom and changes. The instance is of the problem.
Plan write_plan(const Problem& problem, const Instance& instance, const ExactSolution& solution);

}  // namespace square::planning
