// The node and link tables that topology files and scenarios share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "square/topology.h"
#include "topology/toml_reader.h"

namespace square {

// A node table: a name and the limits that it sets.
struct NodeTable {
  TomlTable table;
  std::string name;
  std::optional<double> egress_bps;
  std::optional<double> ingress_bps;
};

// A link table: its ends and the properties that it sets.
struct LinkTable {
  TomlTable table;
  std::string from;
  std::string to;
  std::optional<double> capacity_bps;
  std::optional<Duration> latency;
  std::optional<double> price_usd_per_gb;
  std::optional<double> capacity_stddev_bps;
  std::optional<bool> fixed;

  // `base` with what the table sets in place of it.
  [[nodiscard]] LinkProperties over(LinkProperties base) const;
};

// Errors: INVALID_ARGUMENT with file, line and key for an unknown key, a missing name, a value
// of another type or out of range, a node named twice, a link from a node to itself.
Result<std::vector<NodeTable>> read_node_tables(const TomlTable& parent, std::string_view key);
Result<std::vector<LinkTable>> read_link_tables(const TomlTable& parent, std::string_view key);

// The Mbit/s of `key`, above 0, as bits per second.
Result<std::optional<double>> read_mbps(const TomlTable& table, std::string_view key);
// The same for a standard deviation, which may be 0.
Result<std::optional<double>> read_stddev_mbps(const TomlTable& table, std::string_view key);

// Applies node tables to the nodes that there are and adds those that are not.
Status apply_nodes(Topology& topology, const std::vector<NodeTable>& nodes);
// Adds links between the nodes that there are; with `add_ends` also their ends. Links that come
// twice add up. Errors: INVALID_ARGUMENT with the place for an unknown node.
Status add_links(Topology& topology, const std::vector<LinkTable>& links, bool add_ends);

}  // namespace square
