// Links without a capacity: what a plan assumes of them, and what rests on that.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "square/plan.h"

namespace square::planning {

// An unlimited link is planned as if it had the lowest finite capacity of the overlay, for it may be as slow
// as any; or this one where no link has any.
inline constexpr double kAssumedCapacityBps = 1e9;

struct Assumption {
  std::size_t links = 0;      // without a capacity; those that are to be avoided do not count
  double capacity_bps = 0.0;  // what each was planned as
};
// Nothing if every link has a capacity.
std::optional<Assumption> assumption_of(const Plan& plan);

// The collectives whose bound is proven with the capacity of such a link, in the order of the plan: if the
// link carries more than is assumed, a better plan may exist.
std::vector<CollectiveId> assumed_bounds(const Plan& plan);

}  // namespace square::planning
