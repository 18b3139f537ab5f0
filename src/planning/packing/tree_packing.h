// Trees whose rates add up to a session's rate within what it may put on each link.
#pragma once

#include <vector>

#include "planning/packing/digraph.h"
#include "square/status.h"

namespace square::planning {

// Rates are parts of the session's rate: the trees should sum to one.
struct PackingRequest {
  Digraph graph;  // every node can be reached from the root and leads to a terminal
  int root = 0;
  std::vector<int> terminals;
  std::vector<double> capacity;         // by arc, in (0, 1]
  std::vector<std::vector<int>> seeds;  // sets of arcs that reach all terminals; may be none
  // What some arcs may carry together: the limit of a node.
  struct Limit {
    std::vector<int> arcs;
    double capacity = 0.0;
  };
  std::vector<Limit> limits = {};
};

struct PackedTree {
  std::vector<int> arcs;  // each after the one that feeds it
  double rate = 0.0;
};

// A tree with less than this part of the session's rate is left out where the others can
// take its rate, as long as no more than kThinLoss of the session's rate is lost by it.
inline constexpr double kThinStream = 0.01;
inline constexpr double kThinLoss = 0.005;

// The largest sum of tree rates, at most one, by column generation. Exact, to about 1e-4,
// where every node is a terminal, where there is one terminal, and where terminals are few;
// otherwise what trees found by a heuristic reach. Shallow trees are preferred where it
// costs nothing. Errors: INTERNAL from the solver.
Result<std::vector<PackedTree>> pack_trees(const PackingRequest& request);

}  // namespace square::planning
