// Bounds on one collective's rate from cuts of the overlay.
#pragma once

#include <vector>

#include "planning/problem/problem.h"
#include "square/plan.h"

namespace square::planning {

struct CutBounds {
  std::vector<PlanCut> cuts;      // for each collective that has sessions, in order
  double level_bps = kUnlimited;  // no plan gives every collective more per unit of weight
};

// The best cuts found. A set of nodes S lets out no more than its links (and the limits of
// the nodes at their tails, or at their heads) carry. Each group of sessions with the root
// in S and a destination outside needs its share of that. So all collectives' groups bound
// the level; and one collective is bounded by what is left when every other keeps its
// rate, `collective_bps`. Any S gives a true bound; tried are the roots, all but one
// destination, and minimum cuts, with and without `load_bps`, what the streams of each
// collective put on each link.
CutBounds best_cuts(const Problem& problem, const std::vector<double>& collective_bps,
                    const std::vector<std::vector<double>>& load_bps);

}  // namespace square::planning
