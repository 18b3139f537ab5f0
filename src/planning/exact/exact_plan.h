// The policy "exact".
#pragma once

#include "planning/exact/memory.h"
#include "planning/problem/problem.h"
#include "square/planner.h"
#include "square/status.h"

namespace square::planning {

// Everything but solve_seconds, headroom and changes. `problem` has no paths. Errors: those
// of make_plan() that come from an overlay or a solver. `memory`, if there is one, is where
// the search starts, and afterwards where the next one should.
Result<Plan> exact_plan(const Problem& problem, const PlanOptions& options, ExactMemory* memory);

// See cost_frontier().
Result<std::vector<FrontierPoint>> exact_frontier(const Problem& problem, int points);

}  // namespace square::planning
