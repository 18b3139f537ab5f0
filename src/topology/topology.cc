#include "square/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <cmath>

#include "base/check.h"
#include "topology/graph.h"
#include "topology/text.h"

namespace square {
namespace {

// So that no sum along a path of kMaxNodes nodes overflows a Duration.
constexpr Duration kMaxLatency = std::chrono::hours(24);

Status check_rate(std::string_view what, double rate_bps) {
  if (rate_bps > 0) return {};  // also refuses NaN
  return invalid_argument(
      fmt::format("{} must be above 0, not {} Mbit/s; leave it out for none", what, bps_to_mbps(rate_bps)));
}

Status check_properties(const LinkProperties& properties) {
  SQUARE_RETURN_IF_ERROR(check_rate("the capacity", properties.capacity_bps));
  if (properties.latency < Duration::zero()) return invalid_argument("the latency must not be negative");
  if (properties.latency > kMaxLatency) return invalid_argument("the latency must be at most a day");
  if (!std::isfinite(properties.price_usd_per_gb) || properties.price_usd_per_gb < 0) {
    return invalid_argument(
        fmt::format("the price must be 0 or above and finite, not {}", properties.price_usd_per_gb));
  }
  if (!std::isfinite(properties.capacity_stddev_bps) || properties.capacity_stddev_bps < 0) {
    return invalid_argument(
        fmt::format("the capacity's standard deviation must be 0 or above and finite, not {} Mbit/s",
                    bps_to_mbps(properties.capacity_stddev_bps)));
  }
  return {};
}

// The mean weighted by capacity; an unlimited link outweighs every other.
double joint_price(const LinkProperties& a, const LinkProperties& b) {
  if (std::isinf(a.capacity_bps) && std::isinf(b.capacity_bps)) {
    return a.price_usd_per_gb / 2 + b.price_usd_per_gb / 2;
  }
  if (std::isinf(a.capacity_bps)) return a.price_usd_per_gb;
  if (std::isinf(b.capacity_bps)) return b.price_usd_per_gb;
  const double share = a.capacity_bps / (a.capacity_bps + b.capacity_bps);
  return share * a.price_usd_per_gb + (1 - share) * b.price_usd_per_gb;
}

// What two links between the same nodes are together; their capacities stray independently.
Result<LinkProperties> join(const LinkProperties& a, const LinkProperties& b) {
  const LinkProperties joint{.capacity_bps = a.capacity_bps + b.capacity_bps,
                             .latency = std::max(a.latency, b.latency),
                             .price_usd_per_gb = joint_price(a, b),
                             .capacity_stddev_bps = std::hypot(a.capacity_stddev_bps, b.capacity_stddev_bps),
                             .is_fixed = a.is_fixed || b.is_fixed};
  const bool given = std::isfinite(a.capacity_bps) && std::isfinite(b.capacity_bps);
  if ((given && std::isinf(joint.capacity_bps)) || std::isinf(joint.capacity_stddev_bps)) {
    return invalid_argument("the capacities of parallel links are too large to add up");
  }
  return joint;
}

}  // namespace

Topology::Topology() : graph_(std::make_unique<Graph>()) {}
Topology::Topology(const Topology& other) : graph_(std::make_unique<Graph>(*other.graph_)) {}
Topology::Topology(Topology&& other) noexcept = default;
Topology& Topology::operator=(const Topology& other) {
  if (this != &other) graph_ = std::make_unique<Graph>(*other.graph_);
  return *this;
}
Topology& Topology::operator=(Topology&& other) noexcept = default;
Topology::~Topology() = default;

Result<NodeId> Topology::add_node(TopologyNode node) {
  if (node.name.empty()) return invalid_argument("a node needs a name");
  if (!is_utf8(node.name)) return invalid_argument("a node's name is not UTF-8");
  if (node.name.find('\0') != std::string::npos) return invalid_argument("a node's name has a zero byte");
  SQUARE_RETURN_IF_ERROR(
      check_rate("the egress limit", node.egress_bps).with_context(quoted("node", node.name)));
  SQUARE_RETURN_IF_ERROR(
      check_rate("the ingress limit", node.ingress_bps).with_context(quoted("node", node.name)));
  if (graph_->node_by_name.contains(node.name)) {
    return already_exists(quoted("there are two nodes with the name", node.name));
  }
  if (node_count() >= kMaxNodes) {
    return resource_exhausted(fmt::format("more than {} nodes in a topology", kMaxNodes));
  }
  const NodeId id(static_cast<NodeId::value_type>(node_count()));
  boost::add_vertex(graph_->adjacency);
  graph_->node_by_name.emplace(node.name, id);
  graph_->nodes.push_back(std::move(node));
  graph_->out_links.emplace_back();
  graph_->in_links.emplace_back();
  return id;
}

Result<LinkId> Topology::add_link(NodeId from, NodeId to, const LinkProperties& properties) {
  if (from.index() >= node_count() || to.index() >= node_count()) {
    return invalid_argument("a link needs two nodes of its own topology");
  }
  if (from == to) {
    return invalid_argument(quoted("a link must join two different nodes, not loop at", node(from).name));
  }
  const auto context = [&] { return quoted(quoted("link", node(from).name) + " ->", node(to).name); };
  if (const Status status = check_properties(properties); !status.is_ok())
    return status.with_context(context());
  if (const auto existing = find_link(from, to)) {
    LinkProperties& before = graph_->links[existing->index()].properties;
    const auto joint = join(before, properties);
    if (!joint.is_ok()) return joint.status().with_context(context());
    before = *joint;
    return *existing;
  }
  if (link_count() >= kMaxLinks) {
    return resource_exhausted(fmt::format("more than {} links in a topology", kMaxLinks));
  }
  const LinkId id(static_cast<LinkId::value_type>(link_count()));
  boost::add_edge(from.index(), to.index(), EdgeLink{id.value()}, graph_->adjacency);
  graph_->link_by_ends.emplace(Graph::ends_key(from, to), id);
  graph_->links.push_back({from, to, properties});
  graph_->out_links[from.index()].push_back(id);
  graph_->in_links[to.index()].push_back(id);
  return id;
}

Result<LinkId> Topology::add_link(std::string_view from, std::string_view to,
                                  const LinkProperties& properties) {
  const auto tail = find_node(from);
  if (!tail) return not_found(quoted("no node has the name", from));
  const auto head = find_node(to);
  if (!head) return not_found(quoted("no node has the name", to));
  return add_link(*tail, *head, properties);
}

Status Topology::set_capacity(LinkId link, double capacity_bps) {
  if (link.index() >= link_count()) return invalid_argument("no link has this number");
  SQUARE_RETURN_IF_ERROR(check_rate("the capacity", capacity_bps));
  graph_->links[link.index()].properties.capacity_bps = capacity_bps;
  return {};
}

Status Topology::set_measured(LinkId link, double capacity_bps, double most_bps) {
  SQUARE_RETURN_IF_ERROR(set_capacity(link, capacity_bps));
  SQUARE_RETURN_IF_ERROR(check_rate("the most that may be sent", most_bps));
  LinkProperties& properties = graph_->links[link.index()].properties;
  properties.most_bps = most_bps;
  properties.capacity_stddev_bps = 0.0;
  return {};
}

Status Topology::set_limits(NodeId node, double egress_bps, double ingress_bps) {
  if (node.index() >= node_count()) return invalid_argument("no node has this number");
  SQUARE_RETURN_IF_ERROR(check_rate("the egress limit", egress_bps));
  SQUARE_RETURN_IF_ERROR(check_rate("the ingress limit", ingress_bps));
  graph_->nodes[node.index()].egress_bps = egress_bps;
  graph_->nodes[node.index()].ingress_bps = ingress_bps;
  return {};
}

std::size_t Topology::node_count() const { return graph_->nodes.size(); }
std::size_t Topology::link_count() const { return graph_->links.size(); }

const TopologyNode& Topology::node(NodeId node) const {
  SQUARE_CHECK(node.index() < node_count(), "a node of another topology");
  return graph_->nodes[node.index()];
}

const TopologyLink& Topology::link(LinkId link) const {
  SQUARE_CHECK(link.index() < link_count(), "a link of another topology");
  return graph_->links[link.index()];
}

std::span<const LinkId> Topology::out_links(NodeId node) const {
  SQUARE_CHECK(node.index() < node_count(), "a node of another topology");
  return graph_->out_links[node.index()];
}

std::span<const LinkId> Topology::in_links(NodeId node) const {
  SQUARE_CHECK(node.index() < node_count(), "a node of another topology");
  return graph_->in_links[node.index()];
}

std::optional<NodeId> Topology::find_node(std::string_view name) const {
  const auto found = graph_->node_by_name.find(name);
  if (found == graph_->node_by_name.end()) return std::nullopt;
  return found->second;
}

std::optional<LinkId> Topology::find_link(NodeId from, NodeId to) const {
  const auto found = graph_->link_by_ends.find(Graph::ends_key(from, to));
  if (found == graph_->link_by_ends.end()) return std::nullopt;
  return found->second;
}

std::vector<bool> Topology::reachable_from(NodeId source) const {
  SQUARE_CHECK(source.index() < node_count(), "a node of another topology");
  std::vector<boost::default_color_type> colors(node_count());
  const auto color_map =
      boost::make_iterator_property_map(colors.begin(), boost::get(boost::vertex_index, graph_->adjacency));
  boost::breadth_first_search(graph_->adjacency, source.index(), boost::color_map(color_map));
  std::vector<bool> reachable(node_count());
  for (std::size_t i = 0; i < colors.size(); ++i) reachable[i] = colors[i] != boost::white_color;
  return reachable;
}

Result<Topology> full_mesh(std::span<const std::string> names, const LinkProperties& properties) {
  if (names.size() > kMaxNodes || names.size() * (names.size() - (names.empty() ? 0 : 1)) > kMaxLinks) {
    return resource_exhausted(
        fmt::format("a full mesh of {} nodes has more than {} links", names.size(), kMaxLinks));
  }
  Topology mesh;
  for (const std::string& name : names) SQUARE_RETURN_IF_ERROR(mesh.add_node({.name = name}).status());
  for (std::size_t from = 0; from < names.size(); ++from) {
    for (std::size_t to = 0; to < names.size(); ++to) {
      if (from == to) continue;
      SQUARE_RETURN_IF_ERROR(mesh.add_link(NodeId(static_cast<NodeId::value_type>(from)),
                                           NodeId(static_cast<NodeId::value_type>(to)), properties)
                                 .status());
    }
  }
  return mesh;
}

}  // namespace square
