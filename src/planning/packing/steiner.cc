#include "planning/packing/steiner.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/spending.h"
#include "planning/packing/steiner_table.h"

namespace square::planning {
namespace {

bool all_reached(const Distances& ways, const std::vector<int>& terminals) {
  return std::all_of(terminals.begin(), terminals.end(),
                     [&](int terminal) { return ways.distance[terminal] < kUnreachable; });
}

// Makes the ways start at `sources`, too. Only what gets nearer is looked at again.
void add_sources(const Digraph& graph, const std::vector<int>& sources, const std::vector<double>& cost,
                 Distances& ways) {
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (const int source : sources) {
    ways.distance[source] = 0.0;
    ways.arc[source] = -1;
    queue.emplace(0.0, source);
  }
  while (!queue.empty()) {
    const auto [distance, node] = queue.top();
    queue.pop();
    if (distance > ways.distance[node]) continue;
    for (const int arc : graph.out[node]) {
      const int to = graph.arcs[arc].to;
      if (distance + cost[arc] >= ways.distance[to]) continue;
      ways.distance[to] = distance + cost[arc];
      ways.arc[to] = arc;
      queue.emplace(ways.distance[to], to);
    }
  }
}

// The arcs of the way to `node`, back to where it starts.
void trace_back(const Digraph& graph, const Distances& ways, int node, std::vector<int>& arcs) {
  for (int arc = ways.arc[node]; arc >= 0; arc = ways.arc[graph.arcs[arc].from]) arcs.push_back(arc);
}

}  // namespace

std::optional<std::vector<int>> exact_steiner_tree(const Digraph& graph, int root,
                                                   const std::vector<int>& terminals,
                                                   const std::vector<double>& cost) {
  return SteinerTable(graph, root, terminals).cheapest(cost);
}

double exact_steiner_work(const Digraph& graph, std::size_t terminals) {
  return SteinerTable::work(graph, terminals);
}

std::optional<std::vector<int>> heuristic_steiner_tree(const Digraph& graph, int root,
                                                       const std::vector<int>& terminals,
                                                       const std::vector<double>& cost) {
  Distances ways = shortest_from(graph, {root}, cost);
  if (!all_reached(ways, terminals)) return std::nullopt;
  std::vector<int> arcs;
  for (const int terminal : terminals) trace_back(graph, ways, terminal, arcs);
  std::vector<int> merged = prune_to_tree(graph, root, terminals, arcs, cost);

  std::vector<int> open = terminals;
  std::vector<int> grown;
  while (!open.empty()) {
    look_at_budget();
    const auto nearest = std::min_element(open.begin(), open.end(),
                                          [&](int a, int b) { return ways.distance[a] < ways.distance[b]; });
    const std::size_t before = grown.size();
    trace_back(graph, ways, *nearest, grown);
    open.erase(nearest);
    std::vector<int> joined;
    for (std::size_t a = before; a < grown.size(); ++a) joined.push_back(graph.arcs[grown[a]].to);
    add_sources(graph, joined, cost, ways);
  }
  grown = prune_to_tree(graph, root, terminals, grown, cost);
  return tree_cost(grown, cost) <= tree_cost(merged, cost) ? grown : merged;
}

std::vector<int> prune_to_tree(const Digraph& graph, int root, const std::vector<int>& terminals,
                               const std::vector<int>& arcs, const std::vector<double>& cost) {
  Digraph part(graph.node_count());
  std::vector<double> part_cost;
  for (const int arc : arcs) {
    part.add_arc(graph.arcs[arc].from, graph.arcs[arc].to);
    part_cost.push_back(cost[arc]);
  }
  const Distances ways = shortest_from(part, {root}, part_cost);
  std::vector<bool> needed(graph.node_count(), false);
  for (const int terminal : terminals) {
    for (int v = terminal; v != root && !needed[v]; v = part.arcs[ways.arc[v]].from) needed[v] = true;
  }
  // Breadth first, so that every arc follows the one that feeds it.
  std::vector<int> tree;
  std::vector<int> order = {root};
  std::vector<bool> done(graph.node_count(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const int arc : part.out[order[i]]) {
      const int to = part.arcs[arc].to;
      if (!needed[to] || done[to] || ways.arc[to] != arc) continue;
      done[to] = true;
      tree.push_back(arcs[arc]);
      order.push_back(to);
    }
  }
  return tree;
}

double tree_cost(const std::vector<int>& tree, const std::vector<double>& cost) {
  double sum = 0.0;
  for (const int arc : tree) sum += cost[arc];
  return sum;
}

}  // namespace square::planning
