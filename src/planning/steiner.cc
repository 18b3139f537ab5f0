#include "planning/steiner.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace square::planning {
namespace {

// 2^kMaxExactTerminals entries a node.
constexpr std::size_t kMaxExactTerminals = 14;

// The cheapest tree from every node over every set of terminals.
class DreyfusWagner {
 public:
  DreyfusWagner(const Digraph& graph, const std::vector<int>& terminals, const std::vector<double>& cost)
      : graph_(graph), cost_(cost), sets_(1U << terminals.size()) {
    best_.assign(sets_, std::vector<double>(graph.node_count(), kUnreachable));
    step_.assign(sets_, std::vector<Step>(graph.node_count()));
    for (unsigned set = 1; set < sets_; ++set) {
      if ((set & (set - 1)) == 0) {
        const auto bit = static_cast<std::size_t>(__builtin_ctz(set));
        best_[set][terminals[bit]] = 0.0;
      } else {
        join(set);
      }
      spread(set);
    }
  }

  [[nodiscard]] bool reaches(int root) const { return best_[sets_ - 1][root] < kUnreachable; }

  // The arcs, possibly with some node entered twice where costs are zero.
  [[nodiscard]] std::vector<int> arcs(int root) const {
    std::vector<int> result;
    std::vector<std::pair<unsigned, int>> open = {{sets_ - 1, root}};
    while (!open.empty()) {
      const auto [set, node] = open.back();
      open.pop_back();
      const Step& step = step_[set][node];
      if (step.arc >= 0) {
        result.push_back(step.arc);
        open.emplace_back(set, graph_.arcs[step.arc].to);
      } else if (step.half != 0) {
        open.emplace_back(step.half, node);
        open.emplace_back(set ^ step.half, node);
      }
    }
    return result;
  }

 private:
  struct Step {
    int arc = -1;       // go on along this arc, or
    unsigned half = 0;  // split the set into this one and the rest, or (neither) stop
  };

  void join(unsigned set) {
    const unsigned low = set & (~set + 1);
    for (unsigned half = (set - 1) & set; half != 0; half = (half - 1) & set) {
      if ((half & low) == 0) continue;  // each split once
      const std::vector<double>& a = best_[half];
      const std::vector<double>& b = best_[set ^ half];
      for (int v = 0; v < graph_.node_count(); ++v) {
        if (a[v] + b[v] >= best_[set][v]) continue;
        best_[set][v] = a[v] + b[v];
        step_[set][v] = {-1, half};
      }
    }
  }

  // Dijkstra against the arcs.
  void spread(unsigned set) {
    using Entry = std::pair<double, int>;
    std::vector<double>& best = best_[set];
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (int v = 0; v < graph_.node_count(); ++v) {
      if (best[v] < kUnreachable) queue.emplace(best[v], v);
    }
    while (!queue.empty()) {
      const auto [distance, node] = queue.top();
      queue.pop();
      if (distance > best[node]) continue;
      for (const int arc : graph_.in[node]) {
        const int from = graph_.arcs[arc].from;
        if (distance + cost_[arc] >= best[from]) continue;
        best[from] = distance + cost_[arc];
        step_[set][from] = {arc, 0};
        queue.emplace(best[from], from);
      }
    }
  }

  const Digraph& graph_;
  const std::vector<double>& cost_;
  unsigned sets_;
  std::vector<std::vector<double>> best_;  // [set][node]
  std::vector<std::vector<Step>> step_;
};

bool all_reached(const Distances& ways, const std::vector<int>& terminals) {
  return std::all_of(terminals.begin(), terminals.end(),
                     [&](int terminal) { return ways.distance[terminal] < kUnreachable; });
}

// The arcs of the way to `node`, back to where it starts.
void trace_back(const Digraph& graph, const Distances& ways, int node, std::vector<int>& arcs) {
  for (int arc = ways.arc[node]; arc >= 0; arc = ways.arc[graph.arcs[arc].from]) arcs.push_back(arc);
}

}  // namespace

std::optional<std::vector<int>> exact_steiner_tree(const Digraph& graph, int root,
                                                   const std::vector<int>& terminals,
                                                   const std::vector<double>& cost) {
  const DreyfusWagner table(graph, terminals, cost);
  if (!table.reaches(root)) return std::nullopt;
  return prune_to_tree(graph, root, terminals, table.arcs(root), cost);
}

double exact_steiner_work(const Digraph& graph, std::size_t terminals) {
  if (terminals > kMaxExactTerminals) return kUnreachable;
  double splits = 1.0;
  double sets = 1.0;
  for (std::size_t t = 0; t < terminals; ++t) {
    splits *= 3.0;
    sets *= 2.0;
  }
  constexpr double kHeapFactor = 8.0;
  return splits / 2.0 * graph.node_count() + sets * kHeapFactor * static_cast<double>(graph.arcs.size());
}

std::optional<std::vector<int>> heuristic_steiner_tree(const Digraph& graph, int root,
                                                       const std::vector<int>& terminals,
                                                       const std::vector<double>& cost) {
  Distances ways = shortest_from(graph, {root}, cost);
  if (!all_reached(ways, terminals)) return std::nullopt;
  std::vector<int> arcs;
  for (const int terminal : terminals) trace_back(graph, ways, terminal, arcs);
  std::vector<int> merged = prune_to_tree(graph, root, terminals, arcs, cost);

  std::vector<int> tree_nodes = {root};
  std::vector<int> open = terminals;
  std::vector<int> grown;
  while (true) {
    const auto nearest = std::min_element(open.begin(), open.end(),
                                          [&](int a, int b) { return ways.distance[a] < ways.distance[b]; });
    const std::size_t before = grown.size();
    trace_back(graph, ways, *nearest, grown);
    for (std::size_t a = before; a < grown.size(); ++a) tree_nodes.push_back(graph.arcs[grown[a]].to);
    open.erase(nearest);
    if (open.empty()) break;
    ways = shortest_from(graph, tree_nodes, cost);
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
