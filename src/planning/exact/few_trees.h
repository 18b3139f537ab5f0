// Few trees for many sessions at once, each over all nodes: a local search where a basic solution of the
// program over trees has as many trees as there are links.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/streams.h"

namespace square::planning {

// So many trees carry a session that needs less than links mostly have; one that needs more has more.
inline constexpr int kTreesPerSession = 5;

// Trees that carry nearly all of `demand_rate`, mostly 0.99 of it and hardly ever less than 0.98, within all
// capacities and limits, all demands in the same proportion. A session is cut into parts of which each is
// 0.7 of the one before, and each part goes by a tree that begins as a star. Then single nodes are fed from
// elsewhere, from the links with too much to where the part fits best, until no link has too much (as in bin
// packing by best fit: small parts fill what large ones leave). Where that is possible, a link leaves room
// for what goes back when the link the other way is faster: else a stream over a slow link would wait behind
// the acknowledgements of what comes the other way. Nothing where that does not come about within a number of
// steps, or where a demand does not reach all nodes. The same for the same input. Blocks; thread-safe.
std::optional<Carried> carry_by_few_trees(const Instance& instance, const std::vector<double>& demand_rate);

}  // namespace square::planning
