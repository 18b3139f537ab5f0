#include "planning/codes/edge_graph.h"

namespace square::planning {

EdgeGraph::EdgeGraph(const CodeProblem& problem)
    : blocks(problem.blocks), leaving(static_cast<std::size_t>(problem.graph->node_count())) {
  for (int block = 0; block < problem.blocks; ++block) {
    arc.push_back(-1);
    tail.push_back(problem.root);
    head.push_back(problem.root);
  }
  for (std::size_t a = 0; a < problem.copies.size(); ++a) {
    const Digraph::Arc& ends = problem.graph->arcs[a];
    if (ends.to == problem.root) continue;
    for (int copy = 0; copy < problem.copies[a]; ++copy) {
      leaving[static_cast<std::size_t>(ends.from)].push_back(edge_count());
      arc.push_back(static_cast<int>(a));
      tail.push_back(ends.from);
      head.push_back(ends.to);
    }
  }
}

}  // namespace square::planning
