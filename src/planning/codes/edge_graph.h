// What a code is designed on: links in whole parts, each of which carries one block of every generation.
#pragma once

#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// A session's subgraph in parts of 1 / K of its rate.
struct CodeProblem {
  const Digraph* graph = nullptr;
  int root = 0;
  std::vector<int> terminals;
  int blocks = 1;           // K
  std::vector<int> copies;  // by arc: how many blocks of a generation it can carry
};

// The virtual edges of a problem. Those below `blocks` stand for the root's own blocks and lead to the root;
// the others are copies of arcs.
struct EdgeGraph {
  explicit EdgeGraph(const CodeProblem& problem);

  [[nodiscard]] int edge_count() const { return static_cast<int>(arc.size()); }
  [[nodiscard]] bool is_block(int edge) const { return edge < blocks; }

  int blocks = 0;
  std::vector<int> arc;                   // by edge; -1 for a block
  std::vector<int> tail;                  // by edge; of a block the root
  std::vector<int> head;                  // by edge
  std::vector<std::vector<int>> leaving;  // by node: edges
};

}  // namespace square::planning
