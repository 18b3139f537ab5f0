// A few trees for each session, in a few milliseconds.
#pragma once

#include <vector>

#include "planning/exact/instance.h"

namespace square::planning {

struct QuickTree {
  std::vector<int> links;  // each after the one that feeds it, seen from the root
  double weight = 1.0;     // how many rounds chose it
};

// By demand: different trees, cheap under lengths that grow with what the trees before them put on
// links, node limits and budget. One round gives each demand a tree; there are more where there is
// less to route. A demand with bounds on latency has the tree of its quickest ways alone. As many
// steps whatever the clock says, so that the same scenario has the same trees.
std::vector<std::vector<QuickTree>> quick_trees(const Instance& instance);

}  // namespace square::planning
