// A few trees for each session, in a few milliseconds.
#pragma once

#include <cstddef>
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

// By demand: what its group needs of it for each unit of level.
std::vector<double> needs_of(const Instance& instance);

// Where some demands have their trees already: those of the others, at most so many each, none where it has
// its own.
struct KeptTrees {
  const std::vector<std::vector<QuickTree>>& trees;
  const std::vector<bool>& is_kept;
  std::size_t most = 1;
};
std::vector<std::vector<QuickTree>> quick_trees(const Instance& instance, const KeptTrees& kept);

}  // namespace square::planning
