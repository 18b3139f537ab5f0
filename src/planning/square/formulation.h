// Equations (1) to (6) of the paper with node limits, as one linear program.
#pragma once

#include <vector>

#include "planning/problem/problem.h"
#include "planning/square/allocation.h"
#include "square/planner.h"
#include "square/status.h"

namespace square::planning {

// The duals from which a bound follows; all at least zero.
struct Prices {
  std::vector<double> link;     // of (4), by LinkId
  std::vector<double> egress;   // by NodeId
  std::vector<double> ingress;  // by NodeId
  // l_ij(e): [session][destination], of (3), for links that P_ij uses. Where x_i(e) is not a
  // variable, the price of the link goes to the destinations that set it.
  std::vector<std::vector<std::map<LinkId, double>>> conceptual;
};

struct ProgramAnswer {
  double optimum_bps = 0.0;            // X of (6), or the sum of the collectives' rates (1)
  std::vector<double> collective_bps;  // g_c; 0 for those that took no part
  // By collective: of X <= g_c / w_c. Zero in (1).
  std::vector<double> collective_dual;
  std::vector<Allocation> allocations;  // within `network`; not trimmed
  Prices prices;
};

// Solves for the collectives that are `active`, over `network`. Errors: INTERNAL from
// the solver.
Result<ProgramAnswer> solve_formulation(const Problem& problem, const Network& network,
                                        const std::vector<bool>& active, ShotTrace::Objective objective);

}  // namespace square::planning
