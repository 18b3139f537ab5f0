#include "planning/square/cuts.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "base/spending.h"

namespace square::planning {
namespace {

// Links and nodes that the maximum flows of one plan may visit, and what a sum over the
// whole overlay counts as.
constexpr double kMaxFlowWork = 4e6;
// Capacities become integers with this many steps in the largest, so that flows are exact.
constexpr double kFlowSteps = 1e9;

using Set = std::vector<bool>;

// Sessions that carry the same bytes: one multicast, whatever the policy made of it.
struct Group {
  std::size_t collective = 0;
  NodeId root;
  double fraction = 0.0;
  std::vector<NodeId> destinations;
};

class FlowNetwork {
 public:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = Traits::edge_descriptor;
  struct VertexProperties {
    boost::default_color_type color = boost::white_color;
    std::int64_t distance = 0;
    Edge predecessor{};
  };
  struct EdgeProperties {
    std::int64_t capacity = 0;
    std::int64_t residual = 0;
    Edge reverse{};
  };
  using Graph =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexProperties, EdgeProperties>;

  // Node v is three vertices: where its links arrive, itself, where they leave.
  FlowNetwork(const Topology& topology, const Network& network) : graph_(3 * topology.node_count()) {
    for (const double capacity : network.capacity_bps) largest_ = std::max(largest_, capacity);
    for (std::size_t v = 0; v < topology.node_count(); ++v) {
      add(3 * v, 3 * v + 1, network.ingress_bps[v]);
      add(3 * v + 1, 3 * v + 2, network.egress_bps[v]);
    }
    for (std::size_t e = 0; e < topology.link_count(); ++e) {
      const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
      add(3 * link.from.index() + 2, 3 * link.to.index(), network.capacity_bps[e]);
    }
  }

  // The nodes on the source's side of a minimum cut.
  Set source_side(NodeId source, NodeId target) {
    const std::size_t from = 3 * source.index() + 1;
    const std::size_t to = 3 * target.index() + 1;
    boost::boykov_kolmogorov_max_flow(
        graph_, boost::get(&EdgeProperties::capacity, graph_), boost::get(&EdgeProperties::residual, graph_),
        boost::get(&EdgeProperties::reverse, graph_), boost::get(&VertexProperties::predecessor, graph_),
        boost::get(&VertexProperties::color, graph_), boost::get(&VertexProperties::distance, graph_),
        boost::get(boost::vertex_index, graph_), from, to);
    std::vector<bool> seen(boost::num_vertices(graph_), false);
    std::vector<std::size_t> open = {from};
    seen[from] = true;
    while (!open.empty()) {
      const std::size_t vertex = open.back();
      open.pop_back();
      for (auto [edge, end] = boost::out_edges(vertex, graph_); edge != end; ++edge) {
        const std::size_t next = boost::target(*edge, graph_);
        if (graph_[*edge].residual <= 0 || seen[next]) continue;
        seen[next] = true;
        open.push_back(next);
      }
    }
    Set inside(seen.size() / 3);
    for (std::size_t v = 0; v < inside.size(); ++v) inside[v] = seen[3 * v + 1];
    return inside;
  }

 private:
  void add(std::size_t from, std::size_t to, double capacity_bps) {
    // No set of links of one node passes the sum of all, so that is as good as no limit.
    const double steps = largest_ > 0 ? capacity_bps / largest_ * kFlowSteps : 0.0;
    const double unlimited = kFlowSteps * static_cast<double>(boost::num_vertices(graph_));
    const Edge forward = boost::add_edge(from, to, graph_).first;
    const Edge backward = boost::add_edge(to, from, graph_).first;
    graph_[forward].capacity = static_cast<std::int64_t>(std::clamp(steps, 0.0, unlimited));
    graph_[forward].reverse = backward;
    graph_[backward].reverse = forward;
  }

  Graph graph_;
  double largest_ = 0.0;
};

class Cuts {
 public:
  Cuts(const Problem& problem, const std::vector<double>& collective_bps,
       const std::vector<std::vector<double>>& load_bps)
      : problem_(problem),
        topology_(problem.topology()),
        collective_bps_(collective_bps),
        load_bps_(load_bps) {
    std::map<std::size_t, std::size_t> position;
    for (const Session& session : problem.sessions) {
      const auto [entry, is_new] = position.emplace(session.group, groups_.size());
      if (is_new) groups_.push_back({session.collective, session.root, session.fraction, {}});
      auto& destinations = groups_[entry->second].destinations;
      destinations.insert(destinations.end(), session.destinations.begin(), session.destinations.end());
    }
    for (std::size_t v = 0; v < topology_.node_count(); ++v) {
      double entering = 0.0;
      for (const LinkId link : topology_.in_links(NodeId(static_cast<std::uint32_t>(v)))) {
        entering += problem.network.capacity_bps[link.index()];
      }
      entering_.push_back(std::min(entering, problem.network.ingress_bps[v]));
    }
  }

  CutBounds run() {
    const Phase phase("looking for cuts");
    std::size_t with_sessions = 0;
    for (const auto& sessions : problem_.sessions_of) with_sessions += sessions.empty() ? 0 : 1;
    if (with_sessions == 0) return {};
    const double once = static_cast<double>(topology_.link_count() + 3 * topology_.node_count());
    const auto flows = static_cast<std::size_t>(kMaxFlowWork / once / static_cast<double>(with_sessions));
    FlowNetwork whole(topology_, problem_.network);
    CutBounds bounds;
    for (std::size_t c = 0; c < problem_.sessions_of.size(); ++c) {
      if (!problem_.sessions_of[c].empty()) bounds.cuts.push_back(best_for(c, whole, flows));
    }
    bounds.level_bps = level_bps_;
    return bounds;
  }

 private:
  // Everything but one destination is the tightest where receiving is the bottleneck, so
  // those that can receive least come first.
  [[nodiscard]] std::vector<std::pair<NodeId, NodeId>> ends_of(std::size_t c) const {
    std::set<std::pair<NodeId, NodeId>> ends;
    for (const Group& group : groups_) {
      if (group.collective != c) continue;
      look_at_budget();
      for (const NodeId destination : group.destinations) ends.emplace(group.root, destination);
    }
    std::vector<std::pair<NodeId, NodeId>> result(ends.begin(), ends.end());
    std::stable_sort(result.begin(), result.end(), [&](const auto& a, const auto& b) {
      return entering_[a.second.index()] < entering_[b.second.index()];
    });
    return result;
  }

  PlanCut best_for(std::size_t c, FlowNetwork& whole, std::size_t flows) {
    best_ = PlanCut{problem_.scenario->collectives[c].id, {}, kUnlimited};
    tried_.clear();
    const auto ends = ends_of(c);
    for (const auto& [root, destination] : ends) {
      Set only_root(topology_.node_count(), false);
      only_root[root.index()] = true;
      try_set(c, only_root);
      Set all_but_one(topology_.node_count(), true);
      all_but_one[destination.index()] = false;
      try_set(c, all_but_one);
    }
    FlowNetwork without_others(topology_, left_by_others(c));
    for (std::size_t i = 0; i < ends.size() && 2 * i + 1 < flows; ++i) {
      try_set(c, without_others.source_side(ends[i].first, ends[i].second));
      try_set(c, whole.source_side(ends[i].first, ends[i].second));
    }
    return best_;
  }

  [[nodiscard]] Network left_by_others(std::size_t c) const {
    Network left = problem_.network;
    for (std::size_t other = 0; other < load_bps_.size(); ++other) {
      if (other == c) continue;
      look_at_budget();
      for (std::size_t e = 0; e < left.capacity_bps.size(); ++e) {
        const TopologyLink& link = topology_.link(LinkId(static_cast<std::uint32_t>(e)));
        left.capacity_bps[e] -= load_bps_[other][e];
        left.egress_bps[link.from.index()] -= load_bps_[other][e];
        left.ingress_bps[link.to.index()] -= load_bps_[other][e];
      }
    }
    return left;
  }

  void try_set(std::size_t c, const Set& inside) {
    look_at_budget();
    if (!tried_.insert(inside).second) return;
    double need = 0.0;
    double others = 0.0;
    double weighted = 0.0;
    for (const Group& group : groups_) {
      if (!crosses(group, inside)) continue;
      weighted += group.fraction * problem_.weight[group.collective];
      if (group.collective == c) {
        need += group.fraction;
      } else {
        others += group.fraction * collective_bps_[group.collective];
      }
    }
    if (need <= 0.0) return;
    const double capacity = capacity_out_of(inside);
    level_bps_ = std::min(level_bps_, capacity / weighted);
    const double bound = std::max(capacity - others, 0.0) / need;
    if (bound >= best_.bound_bps) return;
    best_.bound_bps = bound;
    best_.source_side.clear();
    for (std::size_t v = 0; v < inside.size(); ++v) {
      if (inside[v]) best_.source_side.push_back(NodeId(static_cast<std::uint32_t>(v)));
    }
  }

  static bool crosses(const Group& group, const Set& inside) {
    return inside[group.root.index()] &&
           std::any_of(group.destinations.begin(), group.destinations.end(),
                       [&](NodeId destination) { return !inside[destination.index()]; });
  }

  [[nodiscard]] double capacity_out_of(const Set& inside) const {
    std::vector<double> tails(inside.size(), 0.0);
    std::vector<double> heads(inside.size(), 0.0);
    for (std::size_t e = 0; e < topology_.link_count(); ++e) {
      const TopologyLink& link = topology_.link(LinkId(static_cast<std::uint32_t>(e)));
      if (!inside[link.from.index()] || inside[link.to.index()]) continue;
      tails[link.from.index()] += problem_.network.capacity_bps[e];
      heads[link.to.index()] += problem_.network.capacity_bps[e];
    }
    double by_tails = 0.0;
    double by_heads = 0.0;
    for (std::size_t v = 0; v < inside.size(); ++v) {
      by_tails += std::min(tails[v], problem_.network.egress_bps[v]);
      by_heads += std::min(heads[v], problem_.network.ingress_bps[v]);
    }
    return std::min(by_tails, by_heads);
  }

  const Problem& problem_;
  const Topology& topology_;
  const std::vector<double>& collective_bps_;
  const std::vector<std::vector<double>>& load_bps_;
  std::vector<Group> groups_;
  std::vector<double> entering_;  // by node: what links and limit let in
  std::set<Set> tried_;
  PlanCut best_;
  double level_bps_ = kUnlimited;
};

}  // namespace

CutBounds best_cuts(const Problem& problem, const std::vector<double>& collective_bps,
                    const std::vector<std::vector<double>>& load_bps) {
  return Cuts(problem, collective_bps, load_bps).run();
}

}  // namespace square::planning
