#include "planning/scenario/overlay.h"

#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "topology/overlay_tables.h"
#include "topology/text.h"

namespace square {
namespace {

// The file, the mesh or the empty topology that the tables build on.
Result<Topology> read_base(const TomlTable& overlay, const std::filesystem::path& directory,
                           TopologyReadOptions options) {
  if (overlay.has("units")) {
    if (!overlay.has("topology")) {
      return overlay.error("units", "is for numbers without a unit in a topology file, and there is none");
    }
    SQUARE_ASSIGN_OR_RETURN(const std::string unit, overlay.required_text("units"));
    const auto said = topology_read_options(unit);
    if (!said.is_ok()) return overlay.error("units", said.status().message());
    if (!options.unit_bps) options = *said;
  }
  if (overlay.has("topology") && overlay.has("mesh")) {
    return overlay.error("mesh", "leave out either topology or mesh");
  }
  if (overlay.has("topology")) {
    SQUARE_ASSIGN_OR_RETURN(const std::string file, overlay.required_text("topology"));
    auto topology = read_topology(directory / file, options);
    if (!topology.is_ok()) return overlay.at("topology", topology.status());
    return topology;
  }
  SQUARE_ASSIGN_OR_RETURN(const auto names, overlay.texts("mesh"));
  if (!names) return Topology();
  if (names->empty()) return overlay.error("mesh", "must not be empty");
  auto mesh = full_mesh(*names, {});
  // A name that comes twice is a mistake in the file like any other.
  if (mesh.status().code() == StatusCode::kAlreadyExists)
    return overlay.error("mesh", mesh.status().message());
  if (!mesh.is_ok()) return overlay.at("mesh", mesh.status());
  return mesh;
}

// `base` with the nodes of the tables, and with what link tables say about links that it has.
// Takes those tables out of `links`: what stays is new.
Result<Topology> apply_tables(const Topology& base, const std::vector<NodeTable>& nodes,
                              std::vector<LinkTable>& links) {
  std::unordered_map<LinkId, const LinkTable*> changes;
  std::vector<LinkTable> added;
  for (const LinkTable& link : links) {
    const auto from = base.find_node(link.from);
    const auto to = base.find_node(link.to);
    const auto existing = from && to ? base.find_link(*from, *to) : std::nullopt;
    if (!existing) {
      added.push_back(link);
    } else if (!changes.emplace(*existing, &link).second) {
      return link.table.error("to", "two tables for the same link of the topology");
    }
  }
  Topology topology;
  for (std::uint32_t id = 0; id < base.node_count(); ++id) {
    SQUARE_RETURN_IF_ERROR(topology.add_node(base.node(NodeId(id))).status());
  }
  SQUARE_RETURN_IF_ERROR(apply_nodes(topology, nodes));
  for (std::uint32_t id = 0; id < base.link_count(); ++id) {
    const TopologyLink& link = base.link(LinkId(id));
    const auto change = changes.find(LinkId(id));
    const LinkProperties properties =
        change == changes.end() ? link.properties : change->second->over(link.properties);
    SQUARE_RETURN_IF_ERROR(topology.add_link(link.from, link.to, properties).status());
  }
  links = std::move(added);
  return topology;
}

Status draw(Topology& topology, const TomlTable& table) {
  SQUARE_RETURN_IF_ERROR(table.allow_only({"mean", "stddev", "seed", "override"}));
  SQUARE_ASSIGN_OR_RETURN(const auto mean_bps, read_mbps(table, "mean"));
  if (!mean_bps) return table.error("mean", "is missing");
  SQUARE_ASSIGN_OR_RETURN(const auto stddev_mbps, table.not_negative("stddev"));
  SQUARE_ASSIGN_OR_RETURN(const auto seed, table.integer("seed"));
  if (seed && *seed < 0) return table.error("seed", "must be 0 or above");
  SQUARE_ASSIGN_OR_RETURN(const auto override_measured, table.boolean("override"));
  return table.at(
      "", draw_capacities(topology, *mean_bps, mbps_to_bps(stddev_mbps.value_or(0.0)),
                          static_cast<std::uint64_t>(seed.value_or(0)), !override_measured.value_or(false)));
}

// Gives a capacity to the links that have none.
Status apply_default(Topology& topology, const TomlTable& overlay) {
  if (overlay.is_table("capacity_mbps")) {
    SQUARE_ASSIGN_OR_RETURN(const auto table, overlay.table("capacity_mbps"));
    return draw(topology, *table);
  }
  if (overlay.is_text("capacity_mbps")) {
    return overlay.error("capacity_mbps", "must be a number or a table { mean, stddev, seed }, not a text");
  }
  SQUARE_ASSIGN_OR_RETURN(const auto capacity_bps, read_mbps(overlay, "capacity_mbps"));
  if (!capacity_bps) return {};
  for (std::uint32_t id = 0; id < topology.link_count(); ++id) {
    if (!std::isinf(topology.link(LinkId(id)).properties.capacity_bps)) continue;
    SQUARE_RETURN_IF_ERROR(topology.set_capacity(LinkId(id), *capacity_bps));
  }
  return {};
}

// Gives a standard deviation to the links that have none.
Status apply_default_stddev(Topology& topology, const TomlTable& overlay) {
  SQUARE_ASSIGN_OR_RETURN(const auto stddev_mbps, overlay.not_negative("capacity_stddev_mbps"));
  if (!stddev_mbps) return {};
  const double stddev_bps = mbps_to_bps(*stddev_mbps);
  if (std::isinf(stddev_bps)) return overlay.error("capacity_stddev_mbps", "is too large");
  Topology changed;
  for (std::uint32_t id = 0; id < topology.node_count(); ++id) {
    SQUARE_RETURN_IF_ERROR(changed.add_node(topology.node(NodeId(id))).status());
  }
  for (std::uint32_t id = 0; id < topology.link_count(); ++id) {
    const TopologyLink& link = topology.link(LinkId(id));
    LinkProperties properties = link.properties;
    if (properties.capacity_stddev_bps == 0) properties.capacity_stddev_bps = stddev_bps;
    SQUARE_RETURN_IF_ERROR(changed.add_link(link.from, link.to, properties).status());
  }
  topology = std::move(changed);
  return {};
}

}  // namespace

Result<Topology> read_overlay(const TomlTable& root, const std::filesystem::path& directory,
                              const TopologyReadOptions& options) {
  SQUARE_ASSIGN_OR_RETURN(const auto overlay, root.table("overlay"));
  if (!overlay) return root.error("overlay", "is missing: a scenario needs an [overlay]");
  SQUARE_RETURN_IF_ERROR(overlay->allow_only(
      {"topology", "units", "mesh", "capacity_mbps", "capacity_stddev_mbps", "node", "link"}));
  SQUARE_ASSIGN_OR_RETURN(const Topology base, read_base(*overlay, directory, options));
  SQUARE_ASSIGN_OR_RETURN(const auto nodes, read_node_tables(*overlay, "node"));
  SQUARE_ASSIGN_OR_RETURN(auto links, read_link_tables(*overlay, "link"));
  SQUARE_ASSIGN_OR_RETURN(Topology topology, apply_tables(base, nodes, links));
  // Without any list of nodes the links say which there are.
  // Node tables only give limits, so links name the nodes unless a file or a mesh does.
  const bool add_ends = !overlay->has("topology") && !overlay->has("mesh");
  SQUARE_RETURN_IF_ERROR(add_links(topology, links, add_ends));
  if (topology.node_count() == 0) {
    return root.error("overlay",
                      "has no nodes: name a topology file, a mesh, [[overlay.node]] or [[overlay.link]]");
  }
  SQUARE_RETURN_IF_ERROR(apply_default(topology, *overlay));
  SQUARE_RETURN_IF_ERROR(apply_default_stddev(topology, *overlay));
  return topology;
}

}  // namespace square
