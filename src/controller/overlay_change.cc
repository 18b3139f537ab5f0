#include "controller/overlay_change.h"

#include <fmt/format.h>

#include <vector>

#include "base/check.h"

namespace square::controller {
namespace {

bool has_links(const Topology& topology, NodeId node) {
  return !topology.out_links(node).empty() || !topology.in_links(node).empty();
}

}  // namespace

Result<Topology> replace_topology(const Topology& now, const Topology& next) {
  Topology merged;
  for (std::size_t i = 0; i < now.node_count(); ++i) {
    const std::string& name = now.node(NodeId(static_cast<NodeId::value_type>(i))).name;
    const auto found = next.find_node(name);
    if (!found) {
      return invalid_argument(
          fmt::format("the new topology lacks node \"{}\"; nodes can be added, not removed", name));
    }
    SQUARE_RETURN_IF_ERROR(merged.add_node(next.node(*found)).status());
  }
  for (std::size_t i = 0; i < next.node_count(); ++i) {
    const TopologyNode& node = next.node(NodeId(static_cast<NodeId::value_type>(i)));
    if (!now.find_node(node.name)) SQUARE_RETURN_IF_ERROR(merged.add_node(node).status());
  }
  for (std::size_t i = 0; i < next.link_count(); ++i) {
    const TopologyLink& link = next.link(LinkId(static_cast<LinkId::value_type>(i)));
    SQUARE_RETURN_IF_ERROR(
        merged.add_link(next.node(link.from).name, next.node(link.to).name, link.properties).status());
  }
  return merged;
}

Result<Topology> remesh(const Topology& now, const std::set<std::string>& arrived,
                        const std::set<std::string>& gone) {
  Topology meshed;
  for (std::size_t i = 0; i < now.node_count(); ++i) {
    SQUARE_RETURN_IF_ERROR(meshed.add_node(now.node(NodeId(static_cast<NodeId::value_type>(i)))).status());
  }
  for (const std::string& name : arrived) {
    if (!now.find_node(name)) SQUARE_RETURN_IF_ERROR(meshed.add_node({name}).status());
  }
  for (std::size_t i = 0; i < now.link_count(); ++i) {
    const TopologyLink& link = now.link(LinkId(static_cast<LinkId::value_type>(i)));
    if (gone.contains(now.node(link.from).name) || gone.contains(now.node(link.to).name)) continue;
    SQUARE_RETURN_IF_ERROR(meshed.add_link(link.from, link.to, link.properties).status());
  }
  std::vector<NodeId> unlinked;
  for (const std::string& name : arrived) {
    const NodeId id = *meshed.find_node(name);
    if (!has_links(meshed, id)) unlinked.push_back(id);
  }
  for (const NodeId id : unlinked) {
    for (std::size_t i = 0; i < meshed.node_count(); ++i) {
      const NodeId peer(static_cast<NodeId::value_type>(i));
      if (peer == id || gone.contains(meshed.node(peer).name)) continue;
      if (!meshed.find_link(id, peer)) SQUARE_RETURN_IF_ERROR(meshed.add_link(id, peer, {}).status());
      if (!meshed.find_link(peer, id)) SQUARE_RETURN_IF_ERROR(meshed.add_link(peer, id, {}).status());
    }
  }
  return meshed;
}

}  // namespace square::controller
