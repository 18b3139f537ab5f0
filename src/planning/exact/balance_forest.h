// Fewer parts: what two units share between two nodes can be shared by one of them.
#pragma once

#include <vector>

#include "planning/exact/balance.h"

namespace square::planning {

// Moves parts around cycles of units and nodes until there are none: then units have together at most one
// part more than one each for each node, but for those that have all of a node that they may. No unit's sum,
// and no node's, changes; of each cycle the part that is the least in the way goes.
void cut_cycles(const std::vector<BalanceUnit>& units, std::size_t node_count, BalanceParts& parts);

}  // namespace square::planning
