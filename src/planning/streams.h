// From a session's allocation to the streams that carry it.
#pragma once

#include <vector>

#include "planning/allocation.h"
#include "square/plan.h"
#include "square/status.h"

namespace square::planning {

// Trees within x_i(e) whose rates sum to the session's rate, or to as much of it as trees
// can carry. None for a session without a rate. Errors: INTERNAL from the solver.
Result<std::vector<PlanStream>> realise(const Problem& problem, std::size_t session,
                                        const Allocation& allocation);

}  // namespace square::planning
