// Is a plan what it claims to be? Shares no code with the planner.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "square/plan.h"

namespace square {

// Relative tolerance of every comparison of rates.
inline constexpr double kPlanTolerance = 1e-6;

// Every way in which the plan breaks a rule, in words; empty for a valid plan. Checked:
// ids and references; link capacities and node limits, by streams and by effective
// conceptual flows; every stream a tree from its session's root that reaches every
// member of its own session (of a reduce: towards the root) over links that exist, in
// feeding order, with a positive finite rate; of codes: every sum made where its terms come, and
// every member with blocks that it can solve; session, collective, tenant, link and cost
// sums as claimed; rate at most lp_rate at most what the paths carry; byte ranges of a
// collective complete for each destination; bounds as the cuts and the duals of the levels
// prove them, Jain index and totals; of a plan without streams: references, byte ranges
// and certificate. At most 100, and how many more. Thread-safe; does not block.
std::vector<std::string> find_violations(const Plan& plan);

// INVALID_ARGUMENT with the first violations, or OK.
Status validate(const Plan& plan);

// How far one freezing level is from what its duals prove.
struct LevelGap {
  std::size_t level = 0;      // position in PlanCertificate::levels
  double bound_bps = 0;       // of rate / weight, with earlier collectives at their lp_rate
  double lp_level_bps = 0;    // the least lp_rate / weight of the level's collectives
  double rate_level_bps = 0;  // the least rate / weight
  double lp_gap = 0;          // bound / lp_level - 1
  double rate_gap = 0;        // likewise by rates, with earlier collectives at theirs
};

// Bounds and gaps of every level but that of the cost, from the duals alone: claimed
// bounds play no part. A gap is infinite where nothing is proven or nothing is carried.
// Errors: INVALID_ARGUMENT with what a level names that is not there, or that is no cut.
// Thread-safe; does not block; linear in the size of the certificate and of its sessions.
Result<std::vector<LevelGap>> certified_gaps(const Plan& plan);

}  // namespace square
