#include "planning/exact/tree_pricer.h"

#include <utility>

#include "planning/exact/bounded_tree.h"
#include "planning/packing/arborescence.h"
#include "planning/packing/steiner.h"
#include "planning/packing/steiner_table.h"

namespace square::planning {
namespace {

// Elementary steps that one exact Steiner tree may take: about a second.
constexpr double kMaxTableWork = 1e9;

}  // namespace

struct TreePricer::State {
  const Demand& demand;
  const Digraph& graph;
  std::optional<SteinerTable> table;
  std::vector<double> cost;  // by arc

  explicit State(const Demand& what) : demand(what), graph(what.graph->graph) {
    const bool few = demand.terminals.size() > 1 && demand.terminals.size() <= SteinerTable::kMaxTerminals;
    if (!few || demand.spanning || !demand.max_latency.empty()) return;
    table.emplace(graph, demand.root, demand.terminals);
    if (table->work() > kMaxTableWork) table.reset();
  }

  void set_cost(const std::vector<double>& link_cost) {
    cost.resize(graph.arcs.size());
    for (std::size_t a = 0; a < cost.size(); ++a) {
      cost[a] = link_cost[static_cast<std::size_t>(demand.graph->link[a])];
    }
  }

  [[nodiscard]] std::optional<PricedTree> priced(const std::optional<std::vector<int>>& arcs,
                                                 bool cheapest) const {
    if (!arcs.has_value()) return std::nullopt;
    PricedTree tree{{}, tree_cost(*arcs, cost), cheapest};
    for (const int arc : *arcs) tree.links.push_back(demand.graph->link[static_cast<std::size_t>(arc)]);
    return tree;
  }

  [[nodiscard]] std::optional<std::vector<int>> pruned(const std::optional<std::vector<int>>& arcs) const {
    if (!arcs.has_value()) return std::nullopt;
    return prune_to_tree(graph, demand.root, demand.terminals, *arcs, cost);
  }

  [[nodiscard]] std::vector<int> way() const {
    const Distances ways = shortest_from(graph, {demand.root}, cost);
    std::vector<int> arcs;
    for (int arc = ways.arc[static_cast<std::size_t>(demand.terminals[0])]; arc >= 0;
         arc = ways.arc[static_cast<std::size_t>(graph.arcs[static_cast<std::size_t>(arc)].from)]) {
      arcs.insert(arcs.begin(), arc);
    }
    return arcs;
  }
};

TreePricer::TreePricer(const Demand& demand) : state_(std::make_unique<State>(demand)) {}
TreePricer::TreePricer(TreePricer&&) noexcept = default;
TreePricer::~TreePricer() = default;

std::optional<PricedTree> TreePricer::cheapest(const std::vector<double>& link_cost) {
  State& state = *state_;
  const Demand& demand = state.demand;
  state.set_cost(link_cost);
  if (!demand.max_latency.empty()) {
    return state.priced(bounded_tree(state.graph, demand.root, demand.terminals, state.cost,
                                     demand.graph->latency, demand.max_latency),
                        false);
  }
  if (demand.terminals.size() == 1) return state.priced(state.way(), true);
  if (demand.spanning) {
    return state.priced(state.pruned(minimum_arborescence(state.graph, demand.root, state.cost)), true);
  }
  if (state.table.has_value()) return state.priced(state.table->cheapest(state.cost), true);
  const auto grown =
      state.priced(heuristic_steiner_tree(state.graph, demand.root, demand.terminals, state.cost), false);
  std::vector<double> reduced_cost;
  dual_ascent(state.graph, demand.root, demand.terminals, state.cost, &reduced_cost);
  const auto ascended =
      state.priced(ascent_tree(state.graph, demand.root, demand.terminals, state.cost, reduced_cost), false);
  if (!grown.has_value() || !ascended.has_value()) return grown;
  return ascended->cost < grown->cost ? ascended : grown;
}

std::optional<PricedTree> TreePricer::good(const std::vector<double>& link_cost) {
  State& state = *state_;
  const Demand& demand = state.demand;
  if (!demand.max_latency.empty() || demand.terminals.size() == 1 || demand.spanning)
    return cheapest(link_cost);
  state.set_cost(link_cost);
  return state.priced(heuristic_steiner_tree(state.graph, demand.root, demand.terminals, state.cost), false);
}

CutPacking TreePricer::bound(const std::vector<double>& link_cost) {
  State& state = *state_;
  state.set_cost(link_cost);
  return dual_ascent(state.graph, state.demand.root, state.demand.terminals, state.cost);
}

}  // namespace square::planning
