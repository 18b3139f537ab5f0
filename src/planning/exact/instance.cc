#include "planning/exact/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/codes/redundant_code.h"

namespace square::planning {
namespace {

class Maker {
 public:
  explicit Maker(const Problem& problem) : problem_(problem) {
    const Topology& topology = problem.topology();
    instance_.problem = &problem;
    instance_.network = problem.network;
    const PolicySpec& policy = problem.scenario->policy;
    instance_.budget_usd_per_hour = policy.budget_usd_per_hour;
    if (policy.deadline_seconds.has_value()) {
      instance_.deadline = steady_clock().now() + from_seconds(*policy.deadline_seconds);
    }
    for (std::size_t e = 0; e < topology.link_count(); ++e) {
      const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
      instance_.tail.push_back(link.from);
      instance_.head.push_back(link.to);
      instance_.latency.push_back(static_cast<double>(link.properties.latency.count()));
      instance_.price.push_back(link.properties.price_usd_per_gb * kUsdPerHour);
    }
    usable_.assign(topology.link_count(), true);
    for (const LinkId link : problem.scenario->policy.avoid_links) usable_[link.index()] = false;
    for (std::size_t e = 0; e < usable_.size(); ++e) {
      if (problem.network.capacity_bps[e] <= 0.0) usable_[e] = false;
    }
    relays_.assign(topology.node_count(), true);
    for (const NodeId node : problem.scenario->policy.avoid_nodes) relays_[node.index()] = false;
  }

  Result<Instance> run() {
    for (const Session& session : problem_.sessions) {
      look_at_budget();
      SQUARE_RETURN_IF_ERROR(add_demand(session));
    }
    for (std::size_t c = 0; c < problem_.weight.size(); ++c) add_group(c);
    return std::move(instance_);
  }

 private:
  Status add_demand(const Session& session) {
    Demand demand;
    demand.reversed = session.kind == SessionKind::kReduce;
    demand.root = static_cast<int>(session.root.value());
    for (const NodeId node : session.destinations) demand.terminals.push_back(static_cast<int>(node.value()));
    demand.spanning = demand.terminals.size() + 1 == instance_.node_count();
    add_latencies(session, demand);
    demand.graph = graph_of(demand);
    SQUARE_RETURN_IF_ERROR(check_reach(session, demand));
    add_redundancy(session, demand);
    instance_.demands.push_back(std::move(demand));
    return Status::ok();
  }

  void add_latencies(const Session& session, Demand& demand) const {
    const CollectiveSpec& spec = problem_.scenario->collectives[session.collective];
    if (spec.max_latency.empty()) return;
    for (const NodeId node : session.destinations) {
      const auto rank = std::find(spec.members.begin(), spec.members.end(), node) - spec.members.begin();
      const Duration bound = spec.max_latency[static_cast<std::size_t>(rank)];
      demand.max_latency.push_back(bound == Duration::max() ? kUnreachable
                                                            : static_cast<double>(bound.count()));
    }
  }

  void add_redundancy(const Session& session, Demand& demand) const {
    const auto wanted = static_cast<int>(problem_.scenario->collectives[session.collective].redundancy);
    if (wanted == 0) return;
    demand.most_ways = independent_way_count({&demand.graph->graph, demand.root, demand.terminals, wanted});
    demand.redundancy = std::min(wanted, demand.most_ways - 1);
  }

  // Demands share a graph unless what they may use differs.
  std::shared_ptr<const DemandGraph> graph_of(const Demand& demand) {
    if (!demand.max_latency.empty()) return within_latency(demand);
    // A node that relays nothing may still be a root.
    const int exempt = relays_[static_cast<std::size_t>(demand.root)] ? -1 : demand.root;
    auto& graph = graphs_[{demand.reversed, exempt}];
    if (graph == nullptr) graph = std::make_shared<DemandGraph>(whole_graph(demand));
    return graph;
  }

  [[nodiscard]] DemandGraph whole_graph(const Demand& demand) const {
    DemandGraph result{Digraph(static_cast<int>(instance_.node_count())), {}, {}};
    for (std::size_t e = 0; e < usable_.size(); ++e) {
      const NodeId tail = demand.reversed ? instance_.head[e] : instance_.tail[e];
      const NodeId head = demand.reversed ? instance_.tail[e] : instance_.head[e];
      const auto from = static_cast<int>(tail.value());
      if (!usable_[e] || (!relays_[tail.index()] && from != demand.root)) continue;
      result.graph.add_arc(from, static_cast<int>(head.value()));
      result.link.push_back(static_cast<int>(e));
      result.latency.push_back(instance_.latency[e]);
    }
    return result;
  }

  // Without the arcs that no way within a terminal's bound uses.
  [[nodiscard]] std::shared_ptr<const DemandGraph> within_latency(const Demand& demand) const {
    const DemandGraph whole = whole_graph(demand);
    const std::vector<double>& latency = whole.latency;
    const Distances from_root = shortest_from(whole.graph, {demand.root}, latency);
    Digraph backward(whole.graph.node_count());
    for (const Digraph::Arc& arc : whole.graph.arcs) backward.add_arc(arc.to, arc.from);
    std::vector<bool> useful(whole.link.size(), false);
    for (std::size_t j = 0; j < demand.terminals.size(); ++j) {
      const Distances to_terminal = shortest_from(backward, {demand.terminals[j]}, latency);
      for (std::size_t a = 0; a < useful.size(); ++a) {
        const Digraph::Arc& arc = whole.graph.arcs[a];
        const double way = from_root.distance[arc.from] + latency[a] + to_terminal.distance[arc.to];
        if (way <= demand.max_latency[j] && way < kUnreachable) useful[a] = true;
      }
    }
    auto result = std::make_shared<DemandGraph>(DemandGraph{Digraph(whole.graph.node_count()), {}, {}});
    for (std::size_t a = 0; a < useful.size(); ++a) {
      if (!useful[a]) continue;
      result->graph.add_arc(whole.graph.arcs[a].from, whole.graph.arcs[a].to);
      result->link.push_back(whole.link[a]);
      result->latency.push_back(latency[a]);
    }
    return result;
  }

  // Latency of the quickest way to each node, or 0 where only reach counts.
  [[nodiscard]] std::vector<double> quickest(const Demand& demand) const {
    const DemandGraph& graph = *demand.graph;
    if (!demand.max_latency.empty()) {
      return shortest_from(graph.graph, {demand.root}, graph.latency).distance;
    }
    std::vector<double> distance(instance_.node_count(), kUnreachable);
    std::vector<int> order = {demand.root};
    distance[static_cast<std::size_t>(demand.root)] = 0.0;
    for (std::size_t next = 0; next < order.size() && order.size() < distance.size(); ++next) {
      for (const int arc : graph.graph.out[order[next]]) {
        const int to = graph.graph.arcs[arc].to;
        if (distance[to] == 0.0) continue;
        distance[to] = 0.0;
        order.push_back(to);
      }
    }
    return distance;
  }

  Status check_reach(const Session& session, const Demand& demand) const {
    const std::vector<double> distance = quickest(demand);
    for (std::size_t j = 0; j < demand.terminals.size(); ++j) {
      const double bound = demand.max_latency.empty() ? kUnreachable : demand.max_latency[j];
      const double way = distance[demand.terminals[j]];
      if (way == kUnreachable || way > bound) return no_way(session, session.destinations[j], bound);
    }
    return Status::ok();
  }

  [[nodiscard]] Status no_way(const Session& session, NodeId member, double bound) const {
    const PolicySpec& policy = problem_.scenario->policy;
    const auto name = [&](NodeId node) { return problem_.topology().node(node).name; };
    std::string what =
        fmt::format("{}: no path from {} to {}", describe(problem_.scenario->collectives[session.collective]),
                    name(session.kind == SessionKind::kReduce ? member : session.root),
                    name(session.kind == SessionKind::kReduce ? session.root : member));
    if (bound < kUnreachable) what += fmt::format(" within {:g} ms", 1e-6 * bound);
    if (!policy.avoid_links.empty() || !policy.avoid_nodes.empty()) {
      what += " that avoids what the policy avoids";
    }
    return failed_precondition(what + fmt::format("; add links or leave {} out", name(member)));
  }

  void add_group(std::size_t c) {
    Group group;
    // As if all of a job's ran at once: then they share what is the job's.
    const std::size_t turns = problem_.jobs[problem_.job_of[c]].turns.size();
    group.weight = problem_.weight[c] / static_cast<double>(std::max<std::size_t>(turns, 1));
    for (const std::size_t i : problem_.sessions_of[c]) {
      const Session& session = problem_.sessions[i];
      const std::size_t alternative = session.share.value_or(0);
      if (alternative >= group.alternatives.size()) group.alternatives.resize(alternative + 1);
      group.alternatives[alternative].demands.push_back(i);
      group.alternatives[alternative].fractions.push_back(session.fraction);
    }
    instance_.groups.push_back(std::move(group));
  }

  const Problem& problem_;
  std::vector<bool> usable_;  // by link
  std::vector<bool> relays_;  // by node
  std::map<std::pair<bool, int>, std::shared_ptr<DemandGraph>> graphs_;
  Instance instance_;
};

}  // namespace

Result<Instance> make_instance(const Problem& problem) { return Maker(problem).run(); }

}  // namespace square::planning
