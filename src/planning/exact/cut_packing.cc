#include "planning/exact/cut_packing.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "base/spending.h"
#include "planning/packing/arborescence.h"
#include "planning/packing/steiner.h"

namespace square::planning {
namespace {

// What is left of a cost counts as nothing below this share of the greatest cost: rounding.
constexpr double kNothing = 1e-14;

class Ascent {
 public:
  Ascent(const Digraph& graph, int root, const std::vector<int>& terminals, const std::vector<double>& cost)
      : graph_(graph), root_(root) {
    const int n = graph.node_count();
    for (int v = 0; v < n; ++v) {
      begin_.push_back(static_cast<int>(arcs_.size()));
      for (const int arc : graph.in[v]) {
        arcs_.push_back({graph.arcs[arc].from, arc, cost[arc]});
        nothing_ = std::max(nothing_, kNothing * cost[arc]);
      }
    }
    begin_.push_back(static_cast<int>(arcs_.size()));
    component_of_.assign(n, -1);
    for (const int terminal : terminals) {
      if (terminal == root || component_of_[terminal] >= 0) continue;
      component_of_[terminal] = static_cast<int>(components_.size());
      components_.push_back({terminal, {}, std::vector<char>(n, 0), {}});
      add(components_.back(), terminal);
    }
  }

  CutPacking run() {
    CutPacking packing;
    using Entry = std::pair<std::size_t, int>;  // (nodes when last seen, component)
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (int c = 0; c < static_cast<int>(components_.size()); ++c) queue.emplace(1, c);
    while (!queue.empty()) {
      const int c = queue.top().second;
      queue.pop();
      Component& component = components_[c];
      // Components only grow: one that is still the smallest after it is grown is so indeed.
      while (grow(component) && !is_repeated(component)) {
        look_at_budget();
        if (!queue.empty() && component.nodes.size() > queue.top().first) {
          queue.emplace(component.nodes.size(), c);
          break;
        }
        if (!raise(component, packing)) return {{}, kUnreachable};
      }
    }
    return packing;
  }

  void write_reduced(const std::vector<double>& cost, std::vector<double>& reduced) const {
    reduced.resize(cost.size());
    for (const Arc& arc : arcs_) reduced[arc.original] = arc.left;
  }

 private:
  struct Arc {
    int from = 0;
    int original = 0;
    double left = 0.0;
  };
  // The nodes from which arcs with nothing left lead to a terminal.
  struct Component {
    int terminal = 0;
    std::vector<int> nodes;
    std::vector<char> has;      // by node
    std::vector<int> entering;  // arcs that may come from outside
  };

  void add(Component& component, int node) const {
    component.has[node] = 1;
    component.nodes.push_back(node);
    for (int a = begin_[node]; a < begin_[node + 1]; ++a) {
      if (component.has[arcs_[a].from] == 0) component.entering.push_back(a);
    }
  }

  // False if the root came in.
  bool grow(Component& component) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < component.entering.size(); ++i) {
      const int a = component.entering[i];
      const int from = arcs_[a].from;
      if (component.has[from] != 0) continue;
      if (arcs_[a].left > nothing_) {
        component.entering[kept++] = a;
        continue;
      }
      arcs_[a].left = 0.0;
      if (from == root_) {
        component_of_[component.terminal] = -1;
        return false;
      }
      add(component, from);
    }
    component.entering.resize(kept);
    return true;
  }

  // Two terminals that reach each other go on as one.
  bool is_repeated(const Component& component) {
    for (const int node : component.nodes) {
      const int other = component_of_[node];
      if (node == component.terminal || other < 0 || components_[other].has[component.terminal] == 0)
        continue;
      component_of_[component.terminal] = -1;
      return true;
    }
    return false;
  }

  // False if no arc enters.
  bool raise(Component& component, CutPacking& packing) {
    double least = kUnreachable;
    std::size_t kept = 0;
    for (const int a : component.entering) {
      if (component.has[arcs_[a].from] != 0) continue;
      component.entering[kept++] = a;
      least = std::min(least, arcs_[a].left);
    }
    component.entering.resize(kept);
    if (kept == 0) return false;
    for (const int a : component.entering) arcs_[a].left -= least;
    packing.cuts.push_back({component.nodes, least});
    std::sort(packing.cuts.back().far_side.begin(), packing.cuts.back().far_side.end());
    packing.length += least;
    return true;
  }

  const Digraph& graph_;
  int root_;
  std::vector<int> begin_;  // by node: where the arcs into it start
  std::vector<Arc> arcs_;
  double nothing_ = 0.0;
  std::vector<Component> components_;
  std::vector<int> component_of_;  // by node: of the terminal that it is, while that grows
};

// The same tree's nodes, by the cheapest arcs between them.
std::vector<int> respan(const Digraph& graph, int root, const std::vector<int>& terminals,
                        const std::vector<int>& tree, const std::vector<double>& cost) {
  std::vector<int> position(graph.node_count(), -1);
  int nodes = 0;
  position[root] = nodes++;
  for (const int arc : tree) position[graph.arcs[arc].to] = nodes++;
  Digraph part(nodes);
  std::vector<int> arcs;
  std::vector<double> part_cost;
  for (int a = 0; a < static_cast<int>(graph.arcs.size()); ++a) {
    const int from = position[graph.arcs[a].from];
    const int to = position[graph.arcs[a].to];
    if (from < 0 || to <= 0) continue;
    part.add_arc(from, to);
    arcs.push_back(a);
    part_cost.push_back(cost[a]);
  }
  std::optional<std::vector<int>> spanning = minimum_arborescence(part, 0, part_cost);
  for (int& arc : *spanning) arc = arcs[arc];
  return prune_to_tree(graph, root, terminals, *spanning, cost);
}

}  // namespace

CutPacking dual_ascent(const Digraph& graph, int root, const std::vector<int>& terminals,
                       const std::vector<double>& cost, std::vector<double>* reduced_cost) {
  Ascent ascent(graph, root, terminals, cost);
  CutPacking packing = ascent.run();
  if (reduced_cost != nullptr) ascent.write_reduced(cost, *reduced_cost);
  return packing;
}

std::optional<std::vector<int>> ascent_tree(const Digraph& graph, int root, const std::vector<int>& terminals,
                                            const std::vector<double>& cost,
                                            const std::vector<double>& reduced_cost) {
  Digraph part(graph.node_count());
  std::vector<int> arcs;
  std::vector<double> part_cost;
  for (int a = 0; a < static_cast<int>(graph.arcs.size()); ++a) {
    if (reduced_cost[a] > 0.0) continue;
    part.add_arc(graph.arcs[a].from, graph.arcs[a].to);
    arcs.push_back(a);
    part_cost.push_back(cost[a]);
  }
  std::optional<std::vector<int>> tree = heuristic_steiner_tree(part, root, terminals, part_cost);
  if (!tree.has_value()) return std::nullopt;
  for (int& arc : *tree) arc = arcs[arc];
  while (true) {
    look_at_budget();
    std::vector<int> better = respan(graph, root, terminals, *tree, cost);
    if (tree_cost(better, cost) >= tree_cost(*tree, cost)) return tree;
    tree = std::move(better);
  }
}

}  // namespace square::planning
