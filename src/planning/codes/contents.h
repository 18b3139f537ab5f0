// What each virtual edge carries: one of the root's blocks, copied on, or a sum that is made where ways meet.
#pragma once

#include <optional>
#include <vector>

#include "planning/codes/edge_graph.h"

namespace square::planning {

// Disjoint ways of a terminal from the root's blocks to it: edges, the block first.
using TerminalWays = std::vector<std::vector<int>>;

struct Content {
  int origin = 0;           // the node where it begins
  int block = -1;           // of the root's; -1 for a sum
  std::vector<int> inputs;  // of a sum: the contents that meet, two at least
};

// Follows from which edges come before which on the ways.
struct Contents {
  // Nothing where edges feed one another in a circle.
  static std::optional<Contents> of(const EdgeGraph& graph, const std::vector<TerminalWays>& ways);

  std::vector<Content> list;  // the root's blocks first; inputs before their sums
  std::vector<int> of_edge;   // -1: no way goes there
  std::vector<int> order;     // edges that ways use, each after those that feed it

  [[nodiscard]] int sum_count() const;
};

// Edges by edge: which come right before it on some way.
std::vector<std::vector<int>> edges_before(const EdgeGraph& graph, const std::vector<TerminalWays>& ways);

// The tree that copies one content from where it begins.
struct CopyTree {
  std::vector<int> arcs;  // each after the one that feeds it
};
// By content. Each node is reached once, and nobody who does not need it: a terminal whose way ends there,
// or a node that adds it.
std::vector<CopyTree> copy_trees(const CodeProblem& problem, const EdgeGraph& graph,
                                 const std::vector<TerminalWays>& ways, const Contents& contents);

}  // namespace square::planning
