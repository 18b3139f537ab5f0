#include "controller/kept_overlay.h"

#include <utility>

#include "base/check.h"
#include "square/v1/kept_overlay.pb.h"

namespace square::controller {
namespace {

NodeId kept_node(std::size_t index) { return NodeId(static_cast<NodeId::value_type>(index)); }

void write_topology(const Topology& topology, v1::KeptOverlay& kept) {
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    const TopologyNode& node = topology.node(kept_node(i));
    v1::KeptOverlay::Node& written = *kept.add_nodes();
    written.set_name(node.name);
    written.set_egress_bps(node.egress_bps);
    written.set_ingress_bps(node.ingress_bps);
  }
  for (std::size_t i = 0; i < topology.link_count(); ++i) {
    const TopologyLink& link = topology.link(LinkId(static_cast<LinkId::value_type>(i)));
    v1::KeptOverlay::Link& written = *kept.add_links();
    written.set_from(link.from.value());
    written.set_to(link.to.value());
    written.set_capacity_bps(link.properties.capacity_bps);
    written.set_latency_nanoseconds(link.properties.latency.count());
    written.set_price_usd_per_gb(link.properties.price_usd_per_gb);
    written.set_capacity_stddev_bps(link.properties.capacity_stddev_bps);
    written.set_is_fixed(link.properties.is_fixed);
  }
}

Result<Topology> read_topology(const v1::KeptOverlay& kept) {
  Topology topology;
  for (const v1::KeptOverlay::Node& node : kept.nodes()) {
    SQUARE_RETURN_IF_ERROR(topology.add_node({node.name(), node.egress_bps(), node.ingress_bps()}).status());
  }
  for (const v1::KeptOverlay::Link& link : kept.links()) {
    if (link.from() >= topology.node_count() || link.to() >= topology.node_count())
      return data_loss("a link without its nodes");
    const LinkProperties properties{link.capacity_bps(), Duration(link.latency_nanoseconds()),
                                    link.price_usd_per_gb(), link.capacity_stddev_bps(), link.is_fixed()};
    SQUARE_RETURN_IF_ERROR(topology.add_link(NodeId(link.from()), NodeId(link.to()), properties).status());
  }
  return topology;
}

void write_policy(const PlanningState& state, v1::KeptOverlay::Policy& kept) {
  const PolicySpec& policy = state.policy;
  kept.set_name(policy.name);
  kept.set_shots(policy.shots);
  kept.set_paths(to_string(policy.paths));
  kept.set_fairness(std::string(to_string(policy.fairness)));
  kept.set_objective(std::string(to_string(policy.objective)));
  kept.set_gap(policy.gap);
  if (policy.deadline_seconds) kept.set_deadline_seconds(*policy.deadline_seconds);
  kept.set_max_streams(policy.max_streams);
  kept.set_coding(std::string(to_string(policy.coding)));
  if (policy.budget_usd_per_hour) kept.set_budget_usd_per_hour(*policy.budget_usd_per_hour);
  kept.set_headroom(policy.headroom);
  for (const NodeId node : policy.avoid_nodes) kept.add_avoid_nodes(node.value());
  for (const auto& [from, to] : state.avoid_links) {
    kept.add_avoid_links(from.value());
    kept.add_avoid_links(to.value());
  }
}

// The links to avoid by their ends, as a state has them.
Status read_policy(const v1::KeptOverlay::Policy& kept, PlanningState& state) {
  PolicySpec policy;
  policy.name = kept.name();
  policy.shots = kept.shots();
  SQUARE_ASSIGN_OR_RETURN(policy.paths, parse_path_choice(kept.paths()));
  SQUARE_ASSIGN_OR_RETURN(policy.fairness, parse_fairness(kept.fairness()));
  SQUARE_ASSIGN_OR_RETURN(policy.objective, parse_objective(kept.objective()));
  policy.gap = kept.gap();
  if (kept.has_deadline_seconds()) policy.deadline_seconds = kept.deadline_seconds();
  policy.max_streams = kept.max_streams();
  // Stores of before have none.
  if (!kept.coding().empty()) {
    SQUARE_ASSIGN_OR_RETURN(policy.coding, parse_coding(kept.coding()));
  }
  if (kept.has_budget_usd_per_hour()) policy.budget_usd_per_hour = kept.budget_usd_per_hour();
  policy.headroom = kept.headroom();
  for (const auto node : kept.avoid_nodes()) policy.avoid_nodes.emplace_back(node);
  SQUARE_RETURN_IF_ERROR(state.set_policy(policy));
  for (int i = 0; i + 1 < kept.avoid_links_size(); i += 2)
    state.avoid_links.emplace_back(NodeId(kept.avoid_links(i)), NodeId(kept.avoid_links(i + 1)));
  return {};
}

}  // namespace

std::shared_ptr<const std::string> record_of_overlay(const PlanningState& state, bool is_open) {
  v1::KeptOverlay kept;
  if (!is_open) write_topology(state.topology, kept);
  write_policy(state, *kept.mutable_policy());
  return std::make_shared<const std::string>(kept.SerializeAsString());
}

Status restore_overlay(const std::string& record, PlanningState& state, bool is_open) {
  v1::KeptOverlay kept;
  if (!kept.ParseFromString(record)) return data_loss("the store's record of the overlay is damaged");
  PlanningState restored = state;
  if (!is_open) {
    Result<Topology> topology = read_topology(kept);
    if (!topology.is_ok()) return data_loss("the store's topology: " + topology.status().message());
    restored.topology = *std::move(topology);
  }
  if (const Status read = read_policy(kept.policy(), restored); !read.is_ok())
    return data_loss("the store's policy: " + read.message());
  state = std::move(restored);
  return {};
}

}  // namespace square::controller
