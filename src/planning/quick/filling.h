// Rates over given trees.
#pragma once

#include <vector>

#include "planning/exact/instance.h"
#include "planning/quick/trees.h"

namespace square::planning {

struct Filled {
  std::vector<double> group_rate;               // g
  std::vector<std::vector<double>> tree_rate;   // [demand][tree]
  std::vector<std::vector<double>> share_rate;  // [group][alternative]
};

// What groups have where their trees have such rates, [demand][tree].
Filled filled_by(const Instance& instance, std::vector<std::vector<double>> tree_rate);

// Weighted max-min by progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2): all
// groups grow at the pace of their weights; a tree stops when a link, a node limit or the budget that
// it uses is full, and the others of its demand go on for it; a group stops with the first demand
// that has no tree left, a share of an all-reduce likewise. With one tree a demand that is exact. `parts`, by
// group and alternative, say how its alternatives share a group's pace, together 1; empty: alike.
Filled fill(const Instance& instance, const std::vector<std::vector<QuickTree>>& trees,
            const std::vector<std::vector<double>>& parts = {});

}  // namespace square::planning
