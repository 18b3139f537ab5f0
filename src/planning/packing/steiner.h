// Cheap trees from a root over some nodes of a directed graph.
#pragma once

#include <optional>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// The cheapest tree from `root` over `terminals`, by a SteinerTable for this once. Nothing if
// a terminal cannot be reached.
std::optional<std::vector<int>> exact_steiner_tree(const Digraph& graph, int root,
                                                   const std::vector<int>& terminals,
                                                   const std::vector<double>& cost);

// Steps that exact_steiner_tree() takes, about; infinite where it has no room for its table.
double exact_steiner_work(const Digraph& graph, std::size_t terminals);

// A good tree: the better of growing from the root to the nearest terminal again and
// again (Takahashi and Matsuyama, 1980) and of the shortest ways merged.
std::optional<std::vector<int>> heuristic_steiner_tree(const Digraph& graph, int root,
                                                       const std::vector<int>& terminals,
                                                       const std::vector<double>& cost);

// Makes a tree of arcs that reach every terminal from the root: one arc into each node,
// no leaf but terminals, every arc after the one that feeds it, nearest first.
std::vector<int> prune_to_tree(const Digraph& graph, int root, const std::vector<int>& terminals,
                               const std::vector<int>& arcs, const std::vector<double>& cost);

double tree_cost(const std::vector<int>& tree, const std::vector<double>& cost);

}  // namespace square::planning
