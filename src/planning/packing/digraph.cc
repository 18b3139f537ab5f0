#include "planning/packing/digraph.h"

#include <queue>
#include <utility>

namespace square::planning {

Digraph::Digraph(const Topology& topology) : Digraph(static_cast<int>(topology.node_count())) {
  for (std::size_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
    add_arc(static_cast<int>(link.from.value()), static_cast<int>(link.to.value()));
  }
}

int Digraph::add_arc(int from, int to) {
  const int arc = static_cast<int>(arcs.size());
  arcs.push_back({from, to});
  out[from].push_back(arc);
  in[to].push_back(arc);
  return arc;
}

Distances shortest_from(const Digraph& graph, const std::vector<int>& sources,
                        const std::vector<double>& cost) {
  Distances result{std::vector<double>(graph.node_count(), kUnreachable),
                   std::vector<int>(graph.node_count(), -1)};
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (const int source : sources) {
    result.distance[source] = 0.0;
    queue.emplace(0.0, source);
  }
  while (!queue.empty()) {
    const auto [distance, node] = queue.top();
    queue.pop();
    if (distance > result.distance[node]) continue;
    for (const int arc : graph.out[node]) {
      const int to = graph.arcs[arc].to;
      const double candidate = distance + cost[arc];
      if (candidate >= result.distance[to]) continue;
      result.distance[to] = candidate;
      result.arc[to] = arc;
      queue.emplace(candidate, to);
    }
  }
  return result;
}

}  // namespace square::planning
