// Cheap trees whose ways from the root are quick enough.
#pragma once

#include <optional>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// A cheap tree from `root` over `terminals` in which the way to terminal j takes at most
// `max_latency[j]`: terminals are joined one after another by the cheapest way that is
// quick enough, or all by their quickest ways, whichever costs less. For one terminal the
// cheapest there is, while no node has more than kMaxLabels ways worth keeping. Costs and
// latencies by arc, at least 0. Nothing if some terminal has no way that is quick enough.
std::optional<std::vector<int>> bounded_tree(const Digraph& graph, int root,
                                             const std::vector<int>& terminals,
                                             const std::vector<double>& cost,
                                             const std::vector<double>& latency,
                                             const std::vector<double>& max_latency);

inline constexpr std::size_t kMaxLabels = 64;

}  // namespace square::planning
