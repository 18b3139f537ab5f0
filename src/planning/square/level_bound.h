// A bound on the smallest rate / weight that any plan can reach.
#pragma once

#include "planning/square/formulation.h"

namespace square::planning {

// Weak duality over the whole overlay. For lengths l_ij(e) >= 0 whose sum over the
// destinations j of each multicast i is at most l(e) + a(tail of e) + b(head of e), every
// plan keeps
//   t * sum_c w_c sum_{i of c} fraction_i sum_j dist_ij
//       <= sum_e C(e) l(e) + sum_v (egress_v a_v + ingress_v b_v).
// `prices` are the duals of (6) over the problem's whole network; what they leave open is
// chosen here. kUnlimited where the prices bound nothing: a level over few paths may be
// priced on links that longer paths avoid.
double level_bound_bps(const Problem& problem, const Prices& prices);

}  // namespace square::planning
