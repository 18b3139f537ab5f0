// Straight from each root to each of its members: where that is a plan that nothing betters, by arithmetic.
#pragma once

#include <optional>

#include "planning/exact/proof.h"
#include "planning/exact/streams.h"

namespace square::planning {

struct StarsAnswer {
  double level = 0.0;  // t: every group that sends has g = w t
  Carried carried;
  Proof proof;
};

// Each session by the star from its root, the alternatives of a group in equal parts. That is the optimum
// where it uses up all capacities, all egress limits or all ingress limits together: whatever a member
// receives has come over some link to it, so a bit of a session takes as many links as it has members to
// reach, and no plan uses more than there is. So it is on meshes of equal links, and among hosts of whose
// links nothing is known. Nothing where the star does not, where a link of one is missing, or where there is
// a budget, a bound on latency or redundancy. O(links of all stars). Thread-safe.
std::optional<StarsAnswer> carry_by_stars(const Instance& instance);

}  // namespace square::planning
