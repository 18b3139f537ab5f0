#include "topology/overlay_tables.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "base/check.h"
#include "topology/text.h"

namespace square {

LinkProperties LinkTable::over(LinkProperties base) const {
  base.capacity_bps = capacity_bps.value_or(base.capacity_bps);
  base.latency = latency.value_or(base.latency);
  base.price_usd_per_gb = price_usd_per_gb.value_or(base.price_usd_per_gb);
  base.capacity_stddev_bps = capacity_stddev_bps.value_or(base.capacity_stddev_bps);
  base.is_fixed = fixed.value_or(base.is_fixed);
  return base;
}

namespace {

Result<std::optional<double>> to_bps(const TomlTable& table, std::string_view key,
                                     std::optional<double> mbps) {
  if (!mbps) return mbps;
  const double bps = mbps_to_bps(*mbps);
  if (std::isinf(bps)) return table.error(key, "is too large");
  return std::optional(bps);
}

}  // namespace

Result<std::optional<double>> read_mbps(const TomlTable& table, std::string_view key) {
  SQUARE_ASSIGN_OR_RETURN(const auto mbps, table.positive(key));
  return to_bps(table, key, mbps);
}

Result<std::optional<double>> read_stddev_mbps(const TomlTable& table, std::string_view key) {
  SQUARE_ASSIGN_OR_RETURN(const auto mbps, table.not_negative(key));
  return to_bps(table, key, mbps);
}

Result<std::vector<NodeTable>> read_node_tables(const TomlTable& parent, std::string_view key) {
  std::vector<NodeTable> nodes;
  std::unordered_set<std::string> names;
  SQUARE_ASSIGN_OR_RETURN(const auto tables, parent.tables(key));
  for (const TomlTable& table : tables) {
    SQUARE_RETURN_IF_ERROR(table.allow_only({"name", "egress_mbps", "ingress_mbps"}));
    SQUARE_ASSIGN_OR_RETURN(std::string name, table.required_text("name"));
    SQUARE_ASSIGN_OR_RETURN(const auto egress_bps, read_mbps(table, "egress_mbps"));
    SQUARE_ASSIGN_OR_RETURN(const auto ingress_bps, read_mbps(table, "ingress_mbps"));
    if (!names.insert(name).second) return table.error("name", quoted("two tables for the node", name));
    nodes.push_back({table, std::move(name), egress_bps, ingress_bps});
  }
  return nodes;
}

Result<std::vector<LinkTable>> read_link_tables(const TomlTable& parent, std::string_view key) {
  std::vector<LinkTable> links;
  SQUARE_ASSIGN_OR_RETURN(const auto tables, parent.tables(key));
  for (const TomlTable& table : tables) {
    SQUARE_RETURN_IF_ERROR(table.allow_only(
        {"from", "to", "capacity_mbps", "capacity_stddev_mbps", "latency_ms", "price_usd_per_gb", "fixed"}));
    SQUARE_ASSIGN_OR_RETURN(std::string from, table.required_text("from"));
    SQUARE_ASSIGN_OR_RETURN(std::string to, table.required_text("to"));
    if (from == to) return table.error("to", quoted("a link must join two different nodes, not loop at", to));
    SQUARE_ASSIGN_OR_RETURN(const auto capacity_bps, read_mbps(table, "capacity_mbps"));
    SQUARE_ASSIGN_OR_RETURN(const auto stddev_bps, read_stddev_mbps(table, "capacity_stddev_mbps"));
    SQUARE_ASSIGN_OR_RETURN(const auto latency_ms, table.not_negative("latency_ms"));
    SQUARE_ASSIGN_OR_RETURN(const auto price, table.not_negative("price_usd_per_gb"));
    std::optional<Duration> latency;
    if (latency_ms) latency = from_seconds(*latency_ms / 1e3);
    SQUARE_ASSIGN_OR_RETURN(const auto fixed, table.boolean("fixed"));
    links.push_back({table, std::move(from), std::move(to), capacity_bps, latency, price, stddev_bps, fixed});
  }
  return links;
}

Status apply_nodes(Topology& topology, const std::vector<NodeTable>& nodes) {
  for (const NodeTable& node : nodes) {
    if (const auto id = topology.find_node(node.name)) {
      const TopologyNode& before = topology.node(*id);
      SQUARE_RETURN_IF_ERROR(topology.set_limits(*id, node.egress_bps.value_or(before.egress_bps),
                                                 node.ingress_bps.value_or(before.ingress_bps)));
      continue;
    }
    const auto added = topology.add_node(
        {node.name, node.egress_bps.value_or(kUnlimited), node.ingress_bps.value_or(kUnlimited)});
    if (!added.is_ok()) return node.table.at("name", added.status());
  }
  return {};
}

Status add_links(Topology& topology, const std::vector<LinkTable>& links, bool add_ends) {
  for (const LinkTable& link : links) {
    for (const auto& [key, name] : {std::pair("from", &link.from), std::pair("to", &link.to)}) {
      if (topology.find_node(*name)) continue;
      if (!add_ends) return link.table.error(key, quoted("unknown node", *name));
      const auto added = topology.add_node({.name = *name});
      if (!added.is_ok()) return link.table.at(key, added.status());
    }
    const auto added = topology.add_link(link.from, link.to, link.over({}));
    if (!added.is_ok()) return link.table.at("", added.status());
  }
  return {};
}

}  // namespace square
