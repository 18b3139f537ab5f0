// Is a plan what it claims to be? Shares no code with the planner.
#pragma once

#include <string>
#include <vector>

#include "square/plan.h"

namespace square {

// Relative tolerance of every comparison of rates.
inline constexpr double kPlanTolerance = 1e-6;

// Every way in which the plan breaks a rule, in words; empty for a valid plan. Checked:
// ids and references; link capacities and node limits, by streams and by effective
// conceptual flows; every stream a tree from its session's root that reaches every
// member of its own session over links that exist, in feeding order, with a positive
// finite rate; session, collective, tenant and link sums as claimed; rate at most
// lp_rate at most what the paths carry; byte ranges of a collective complete for each
// destination; bounds, Jain index and totals. Thread-safe; does not block.
std::vector<std::string> find_violations(const Plan& plan);

// INVALID_ARGUMENT with the first violations, or OK.
Status validate(const Plan& plan);

}  // namespace square
