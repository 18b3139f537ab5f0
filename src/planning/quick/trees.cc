#include "planning/quick/trees.h"

#include <queue>
#include <utility>

#include "base/spending.h"
#include "planning/packing/steiner.h"
#include "planning/quick/lengths.h"

namespace square::planning {
namespace {

// Arcs that all rounds together may look at, and how many rounds there are at most.
constexpr double kMaxWork = 6e6;
constexpr int kMaxRounds = 48;
constexpr int kMinRounds = 2;
// A tree that grows is looked at about twice as often as a search for one way.
constexpr double kGrowthWork = 2.0;
// How much of the way from the root counts where a tree is joined (Alpert and others, 1995, between
// Prim's trees and Dijkstra's): deep trees are slow, flat ones leave from the root once too often.
constexpr double kDepth = 0.5;

// Ways and trees in one demand's graph under the lengths of the moment.
class Search {
 public:
  explicit Search(const QuickLengths& lengths) : lengths_(lengths) {}

  // Shortest ways from the root to all nodes; links_to() reads them.
  void ways_from(const Demand& demand) {
    start(demand);
    while (step() >= 0) {
    }
  }

  [[nodiscard]] std::vector<int> links_to(int node) const {
    std::vector<int> links;
    for (int arc = arc_[node]; arc >= 0; arc = arc_[graph_->graph.arcs[arc].from]) {
      links.push_back(graph_->link[arc]);
    }
    std::reverse(links.begin(), links.end());
    return links;
  }

  // A tree over the terminals: the one that is nearest joins, by its way, and so on.
  std::vector<int> tree_of(const Demand& demand) {
    start(demand);
    std::size_t open = demand.terminals.size();
    wanted_.assign(key_.size(), false);
    for (const int terminal : demand.terminals) wanted_[terminal] = true;
    std::vector<int> links;
    while (open > 0) {
      const int node = step();
      if (node < 0) break;  // make_instance() saw that all are reached
      if (!wanted_[node] || joined_[node]) continue;
      open -= join(node, links);
    }
    return links;
  }

 private:
  using Entry = std::pair<double, int>;

  void start(const Demand& demand) {
    graph_ = demand.graph.get();
    const std::size_t nodes = graph_->graph.out.size();
    key_.assign(nodes, kUnreachable);
    arc_.assign(nodes, -1);
    joined_.assign(nodes, false);
    from_root_.assign(nodes, 0.0);
    queue_ = {};
    joined_[demand.root] = true;
    key_[demand.root] = 0.0;
    queue_.emplace(0.0, demand.root);
  }

  // The next node by its key, whose neighbours are looked at; -1: there is none.
  int step() {
    while (!queue_.empty()) {
      const auto [key, node] = queue_.top();
      queue_.pop();
      if (key > key_[node]) continue;
      for (const int arc : graph_->graph.out[node]) {
        const int to = graph_->graph.arcs[arc].to;
        const double through = key + lengths_.of(graph_->link[arc]);
        if (joined_[to] || through >= key_[to]) continue;
        key_[to] = through;
        arc_[to] = arc;
        queue_.emplace(through, to);
      }
      return node;
    }
    return -1;
  }

  // The way to the node becomes part of the tree. How many terminals are on it.
  std::size_t join(int node, std::vector<int>& links) {
    way_.clear();
    for (int v = node; !joined_[v]; v = graph_->graph.arcs[arc_[v]].from) way_.push_back(v);
    std::size_t terminals = 0;
    for (auto v = way_.rbegin(); v != way_.rend(); ++v) {
      const int arc = arc_[*v];
      links.push_back(graph_->link[arc]);
      joined_[*v] = true;
      terminals += wanted_[*v] ? 1 : 0;
      from_root_[*v] = from_root_[graph_->graph.arcs[arc].from] + lengths_.of(graph_->link[arc]);
      key_[*v] = kDepth * from_root_[*v];
      queue_.emplace(key_[*v], *v);
    }
    return terminals;
  }

  const QuickLengths& lengths_;
  const DemandGraph* graph_ = nullptr;
  // By node: what it costs to join it, by which arc, whether it is in the tree, and how far it is
  // from the root there.
  std::vector<double> key_;
  std::vector<int> arc_;
  std::vector<bool> joined_;
  std::vector<double> from_root_;
  std::vector<bool> wanted_;
  std::vector<int> way_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

std::vector<int> quickest_tree(const Demand& demand) {
  const Digraph& graph = demand.graph->graph;
  const Distances quickest = shortest_from(graph, {demand.root}, demand.graph->latency);
  std::vector<int> arcs;
  for (const int terminal : demand.terminals) {
    for (int arc = quickest.arc[terminal]; arc >= 0; arc = quickest.arc[graph.arcs[arc].from]) {
      arcs.push_back(arc);
    }
  }
  std::vector<int> links;
  for (const int arc : prune_to_tree(graph, demand.root, demand.terminals, arcs, demand.graph->latency)) {
    links.push_back(demand.graph->link[arc]);
  }
  return links;
}

class Rounds {
 public:
  Rounds(const Instance& instance, const KeptTrees* kept)
      : instance_(instance),
        kept_(kept),
        lengths_(instance),
        search_(lengths_),
        need_(needs_of(instance)),
        trees_(instance.demands.size()) {
    for (std::size_t i = 0; i < need_.size(); ++i) {
      if (!has_its_own(i)) continue;
      double whole = 0.0;
      for (const QuickTree& tree : kept_->trees[i]) whole += tree.weight;
      if (!(whole > 0.0)) continue;
      for (const QuickTree& tree : kept_->trees[i]) lengths_.put(tree.links, need_[i] * tree.weight / whole);
    }
  }

  std::vector<std::vector<QuickTree>> run() {
    const int rounds = number_of_rounds();
    for (int round = 0; round < rounds; ++round) {
      lengths_.refresh();
      const Demand* before = nullptr;  // whose ways the search knows
      for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
        look_at_budget();
        if (has_its_own(i)) continue;
        const Demand& demand = instance_.demands[i];
        if (!demand.max_latency.empty()) {
          if (round == 0) add(i, quickest_tree(demand));
          before = nullptr;
        } else if (demand.terminals.size() == 1) {
          // Unicasts from one root, one after another, are routed together.
          if (before == nullptr || before->graph != demand.graph || before->root != demand.root) {
            search_.ways_from(demand);
          }
          before = &demand;
          add(i, search_.links_to(demand.terminals[0]));
        } else {
          before = nullptr;
          add(i, search_.tree_of(demand));
        }
      }
    }
    return std::move(trees_);
  }

 private:
  [[nodiscard]] bool has_its_own(std::size_t demand) const {
    return kept_ != nullptr && kept_->is_kept[demand];
  }

  [[nodiscard]] int number_of_rounds() const {
    double work = 1.0;
    const Demand* before = nullptr;
    for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
      if (has_its_own(i)) continue;
      const Demand& demand = instance_.demands[i];
      const auto arcs = static_cast<double>(demand.graph->link.size());
      if (demand.terminals.size() > 1) {
        work += kGrowthWork * arcs;
      } else if (before == nullptr || before->graph != demand.graph || before->root != demand.root) {
        work += arcs;
      }
      before = demand.terminals.size() == 1 ? &demand : nullptr;
    }
    const auto rounds = static_cast<int>(std::clamp<double>(kMaxWork / work, kMinRounds, kMaxRounds));
    return kept_ == nullptr ? rounds : std::min(rounds, static_cast<int>(kept_->most));
  }

  void add(std::size_t demand, std::vector<int> links) {
    lengths_.put(links, need_[demand]);
    std::vector<QuickTree>& trees = trees_[demand];
    const auto same =
        std::find_if(trees.begin(), trees.end(), [&](const QuickTree& tree) { return tree.links == links; });
    if (same != trees.end()) {
      same->weight += 1.0;
    } else {
      trees.push_back({std::move(links), 1.0});
    }
  }

  const Instance& instance_;
  const KeptTrees* const kept_;  // or null
  QuickLengths lengths_;
  Search search_;
  std::vector<double> need_;  // by demand: what its group needs of it for each unit of level
  std::vector<std::vector<QuickTree>> trees_;
};

}  // namespace

std::vector<double> needs_of(const Instance& instance) {
  std::vector<double> needs(instance.demands.size());
  for (const Group& group : instance.groups) {
    for (const Alternative& alternative : group.alternatives) {
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        needs[alternative.demands[k]] =
            group.weight * alternative.fractions[k] / static_cast<double>(group.alternatives.size());
      }
    }
  }
  return needs;
}

std::vector<std::vector<QuickTree>> quick_trees(const Instance& instance) {
  return Rounds(instance, nullptr).run();
}

std::vector<std::vector<QuickTree>> quick_trees(const Instance& instance, const KeptTrees& kept) {
  return Rounds(instance, &kept).run();
}

}  // namespace square::planning
