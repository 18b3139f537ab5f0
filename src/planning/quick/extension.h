// A plan for a scenario that is little other than another plan's.
#pragma once

#include <optional>

#include "planning/problem/problem.h"
#include "square/plan.h"

namespace square::planning {

// Collectives of `base` that are still there keep their streams; new ones get trees and a fair part of what
// these use, which is taken from those that share a link or limit with them; what is gone leaves its part
// free. Feasible, nothing proven, and less even the more of them are put on top of one another. nullopt where
// the overlay or a collective that stays is other than in `base`, where more is new than is kept, and where
// there are bounds or costs: make a plan of its own. What is computed beside writing the plan down grows with
// what is new. Errors as quick_plan().
Result<std::optional<Plan>> extend_plan(const Problem& problem, const Plan& base);

}  // namespace square::planning
