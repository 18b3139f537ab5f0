// A small directed graph for the algorithms under the planner: nodes from 0, arcs by
// position, costs outside.
#pragma once

#include <limits>
#include <vector>

#include "square/topology.h"

namespace square::planning {

inline constexpr double kUnreachable = std::numeric_limits<double>::infinity();

struct Digraph {
  struct Arc {
    int from = 0;
    int to = 0;
  };

  std::vector<Arc> arcs;
  std::vector<std::vector<int>> out;  // arcs by node
  std::vector<std::vector<int>> in;

  explicit Digraph(int nodes) : out(nodes), in(nodes) {}
  // Nodes are node ids, arcs are link ids.
  explicit Digraph(const Topology& topology);

  [[nodiscard]] int node_count() const { return static_cast<int>(out.size()); }
  int add_arc(int from, int to);
};

struct Distances {
  std::vector<double> distance;  // kUnreachable where there is no way
  std::vector<int> arc;          // the last arc of a shortest way, -1 at its start
};

// Shortest ways from `sources` (all at distance 0) by Dijkstra's algorithm. Costs by arc,
// at least zero. O(m log m).
Distances shortest_from(const Digraph& graph, const std::vector<int>& sources,
                        const std::vector<double>& cost);

}  // namespace square::planning
