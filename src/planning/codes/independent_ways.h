// Ways through a graph of which one is left whichever node or arc fails.
#pragma once

#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// Ways to `terminal` that share neither an arc nor a node but their ends, as arcs, together the cheapest of
// as many; fewer than `wanted` where there are no more. Costs by arc, at least zero. By successive shortest
// paths (Suurballe, Networks 4, 1974).
std::vector<std::vector<int>> independent_ways(const Digraph& graph, int root, int terminal, int wanted,
                                               const std::vector<double>& cost);

}  // namespace square::planning
