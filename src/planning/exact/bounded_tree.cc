#include "planning/exact/bounded_tree.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/spending.h"
#include "planning/packing/steiner.h"

namespace square::planning {
namespace {

// A way from the tree to a node that no other way known beats in both cost and latency.
struct Label {
  double cost = 0.0;
  double latency = 0.0;
  int node = 0;
  int arc = -1;     // the last one; -1 where the way starts
  int before = -1;  // the label of the way without it
};

class Growth {
 public:
  Growth(const Digraph& graph, int root, const std::vector<int>& terminals, const std::vector<double>& cost,
         const std::vector<double>& latency, const std::vector<double>& max_latency)
      : graph_(graph),
        cost_(cost),
        latency_(latency),
        in_tree_(graph.out.size()),
        arrival_(graph.out.size()) {
    in_tree_[static_cast<std::size_t>(root)] = true;
    nodes_.push_back(root);
    // A terminal on the way to another must be reached in its own time.
    latest_.assign(graph.out.size(), *std::max_element(max_latency.begin(), max_latency.end()));
    for (std::size_t j = 0; j < terminals.size(); ++j) {
      latest_[static_cast<std::size_t>(terminals[j])] = max_latency[j];
    }
  }

  [[nodiscard]] bool has(int node) const { return in_tree_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const std::vector<int>& arcs() const { return arcs_; }

  // Joins the open terminal that can be had most cheaply. Whether there was one.
  bool join_next(const std::vector<int>& terminals) {
    search();
    int best = -1;
    const auto cost_of = [&](int label) { return labels_[static_cast<std::size_t>(label)].cost; };
    for (const int terminal : terminals) {
      const std::vector<int>& known = at_[static_cast<std::size_t>(terminal)];
      if (has(terminal) || known.empty()) continue;
      if (best < 0 || cost_of(known.front()) < cost_of(best)) best = known.front();
    }
    if (best < 0) return false;
    join(best);
    return true;
  }

 private:
  void search() {
    labels_.clear();
    at_.assign(graph_.out.size(), {});
    using Entry = std::tuple<double, double, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    const auto push = [&](const Label& label) {
      labels_.push_back(label);
      queue.emplace(label.cost, label.latency, static_cast<int>(labels_.size()) - 1);
    };
    for (const int node : nodes_) push({0.0, arrival_[static_cast<std::size_t>(node)], node, -1, -1});
    while (!queue.empty()) {
      look_at_budget();
      const int number = std::get<2>(queue.top());
      queue.pop();
      const Label label = labels_[static_cast<std::size_t>(number)];
      if (!keep(label, number)) continue;
      for (const int arc : graph_.out[static_cast<std::size_t>(label.node)]) {
        const int to = graph_.arcs[static_cast<std::size_t>(arc)].to;
        const double arrives = label.latency + latency_[static_cast<std::size_t>(arc)];
        if (has(to) || arrives > latest_[static_cast<std::size_t>(to)]) continue;
        push({label.cost + cost_[static_cast<std::size_t>(arc)], arrives, to, arc, number});
      }
    }
  }

  // Labels come by cost: one is worth keeping if it is quicker than all before it.
  bool keep(const Label& label, int number) {
    std::vector<int>& known = at_[static_cast<std::size_t>(label.node)];
    if (known.size() >= kMaxLabels) return false;
    if (!known.empty() && labels_[static_cast<std::size_t>(known.back())].latency <= label.latency)
      return false;
    known.push_back(number);
    return true;
  }

  // A way that comes twice by a node is cut short by a cheaper, quicker label of that node,
  // so the ways that are kept are simple.
  void join(int number) {
    std::vector<int> way;
    for (int at = number; labels_[static_cast<std::size_t>(at)].arc >= 0;
         at = labels_[static_cast<std::size_t>(at)].before) {
      way.push_back(at);
    }
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
      const Label& label = labels_[static_cast<std::size_t>(*at)];
      arcs_.push_back(label.arc);
      nodes_.push_back(label.node);
      in_tree_[static_cast<std::size_t>(label.node)] = true;
      arrival_[static_cast<std::size_t>(label.node)] = label.latency;
    }
  }

  const Digraph& graph_;
  const std::vector<double>& cost_;
  const std::vector<double>& latency_;
  std::vector<bool> in_tree_;
  std::vector<double> arrival_;
  std::vector<double> latest_;  // by node
  std::vector<int> nodes_;
  std::vector<int> arcs_;
  std::vector<Label> labels_;
  std::vector<std::vector<int>> at_;  // by node: labels, by cost
};

}  // namespace

std::optional<std::vector<int>> bounded_tree(const Digraph& graph, int root,
                                             const std::vector<int>& terminals,
                                             const std::vector<double>& cost,
                                             const std::vector<double>& latency,
                                             const std::vector<double>& max_latency) {
  const Distances quickest = shortest_from(graph, {root}, latency);
  std::vector<int> arcs;
  for (std::size_t j = 0; j < terminals.size(); ++j) {
    if (!(quickest.distance[static_cast<std::size_t>(terminals[j])] <= max_latency[j])) return std::nullopt;
    for (int arc = quickest.arc[static_cast<std::size_t>(terminals[j])]; arc >= 0;
         arc = quickest.arc[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(arc)].from)]) {
      arcs.push_back(arc);
    }
  }
  std::vector<int> quick = prune_to_tree(graph, root, terminals, arcs, latency);

  Growth growth(graph, root, terminals, cost, latency, max_latency);
  const auto done = [&] {
    return std::all_of(terminals.begin(), terminals.end(), [&](int node) { return growth.has(node); });
  };
  while (!done()) {
    if (!growth.join_next(terminals)) return quick;
  }
  const std::vector<int> grown = prune_to_tree(graph, root, terminals, growth.arcs(), latency);
  return tree_cost(grown, cost) <= tree_cost(quick, cost) ? grown : quick;
}

}  // namespace square::planning
