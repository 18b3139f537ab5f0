// The cheapest tree from a root over all nodes of a directed graph.
#pragma once

#include <optional>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// The arcs of a minimum-cost arborescence that reaches every node from `root`; nothing if
// some node cannot be reached. Chu and Liu (1965), Edmonds (1967), by contraction, O(nm).
std::optional<std::vector<int>> minimum_arborescence(const Digraph& graph, int root,
                                                     const std::vector<double>& cost);

}  // namespace square::planning
