// From a session's allocation to the streams that carry it.
#pragma once

#include <vector>

#include "planning/square/allocation.h"
#include "square/plan.h"
#include "square/status.h"

namespace square::planning {

// Trees within x_i(e) whose rates sum to the session's rate, or to as much of it as trees
// can carry. None for a session without a rate. Errors: INTERNAL from the solver.
Result<std::vector<PlanStream>> realise(const Problem& problem, std::size_t session,
                                        const Allocation& allocation);

// The same, but on every link of the session's feasible paths with what is in `room`,
// capacities and limits, instead of x_i(e). The flows of a program may lie so that trees
// carry less than they do, while links have room to spare.
Result<std::vector<PlanStream>> realise_within(const Problem& problem, std::size_t session,
                                               const Allocation& allocation, const Network& room);

}  // namespace square::planning
