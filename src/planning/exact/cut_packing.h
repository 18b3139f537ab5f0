// Lower bounds on directed Steiner trees: packings of cuts.
#pragma once

#include <optional>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// Sets of nodes without the root and with a terminal, each with a length > 0. The sets that
// an arc enters are together no longer than its cost, but for rounding. Every tree, and
// every flow with coding, enters each set, so none costs less than all lengths together.
struct CutPacking {
  struct Cut {
    std::vector<int> far_side;  // sorted
    double length = 0.0;
  };
  std::vector<Cut> cuts;  // no set twice
  double length = 0.0;    // of all together
};

// Dual ascent (Wong, Mathematical Programming 28, 1984): the smallest set first, so that
// the length is the cost of a cheapest tree for one terminal and when all nodes are
// terminals (Fulkerson, Mathematical Programming 6, 1974); else it can be less. Costs by
// arc, at least zero and finite. `reduced_cost` becomes what the cuts leave of them; the
// arcs where it is exactly zero reach every terminal. Each terminal must be reachable, or
// there is no limit: then the packing has no cuts and infinite length.
CutPacking dual_ascent(const Digraph& graph, int root, const std::vector<int>& terminals,
                       const std::vector<double>& cost, std::vector<double>* reduced_cost = nullptr);

// A good tree from the arcs to which dual_ascent() left nothing, improved by other arcs
// between its nodes: the cheapest tree where the ascent is exact. Each arc follows the one
// that feeds it; no leaf but terminals. Nothing if those arcs miss a terminal.
std::optional<std::vector<int>> ascent_tree(const Digraph& graph, int root, const std::vector<int>& terminals,
                                            const std::vector<double>& cost,
                                            const std::vector<double>& reduced_cost);

}  // namespace square::planning
