// Amounts that may go to one of several nodes each, given out so that no node has more than it has room for.
#pragma once

#include <optional>
#include <vector>

namespace square::planning {

struct BalanceUnit {
  double amount = 0.0;
  std::vector<int> nodes;      // that may take a part of it
  std::vector<double> most{};  // of it, by node; empty: all
};

// By unit, in the order of its nodes.
using BalanceParts = std::vector<std::vector<double>>;

// Parts that sum to each unit's amount, and at every node to its room at most, to rounding. They begin as
// `start` says, which may be empty for some units, and change where they must: in few steps each of which
// goes the shortest way (Edmonds and Karp 1972, between nodes, over the units that both may take). So most
// units are whole at one node, and a start that is nearly right stays nearly as it is. Nothing where there
// are no such parts, or they are not found in 20,000 steps.
std::optional<BalanceParts> balance(const std::vector<BalanceUnit>& units, const std::vector<double>& room,
                                    BalanceParts start);

}  // namespace square::planning
