// Topology files: which reader takes which, and the reader of TOML tables.
#include <fmt/format.h>

#include "base/check.h"
#include "square/topology.h"
#include "topology/overlay_tables.h"
#include "topology/readers.h"
#include "topology/speed_text.h"
#include "topology/text.h"

namespace square {

Result<Topology> parse_topology_toml(std::string_view text, std::string_view source_name) {
  SQUARE_ASSIGN_OR_RETURN(const auto root, TomlTable::parse(text, source_name));
  if (root.has("overlay")) {
    return root.error(
        "overlay",
        "this file is a scenario, not a topology: give it as the scenario, or move its "
        "[[overlay.node]] and [[overlay.link]] to [[node]] and [[link]] of a file of their own");
  }
  SQUARE_RETURN_IF_ERROR(root.allow_only({"node", "link"}));
  SQUARE_ASSIGN_OR_RETURN(const auto nodes, read_node_tables(root, "node"));
  SQUARE_ASSIGN_OR_RETURN(const auto links, read_link_tables(root, "link"));
  Topology topology;
  SQUARE_RETURN_IF_ERROR(apply_nodes(topology, nodes));
  SQUARE_RETURN_IF_ERROR(add_links(topology, links, nodes.empty()));
  return topology;
}

Result<TopologyReadOptions> topology_read_options(std::string_view unit) {
  if (unit == "none") return TopologyReadOptions{.unit_bps = 0.0};
  const auto bps = unit_bps(unit);
  if (bps) return TopologyReadOptions{.unit_bps = bps};
  return invalid_argument(
      fmt::format("\"{}\" is not a unit of speeds: write one such as \"bit/s\", \"Mbit/s\", \"Gbps\" or "
                  "\"MB/s\", or \"none\" if numbers without a unit are no speeds",
                  excerpt(unit)));
}

Result<Topology> read_topology(const std::filesystem::path& file, const TopologyReadOptions& options) {
  const std::string extension = lower_case(file.extension().string());
  SQUARE_ASSIGN_OR_RETURN(const std::string text, read_text_file(file, kMaxTopologyFileBytes));
  if (extension == ".toml") return parse_topology_toml(text, file.string());
  const auto read = extension == ".gml"       ? read_gml
                    : extension == ".graphml" ? read_graphml
                    : extension == ".csv"     ? read_csv
                                              : nullptr;
  if (read == nullptr) {
    return invalid_argument(fmt::format(
        "{}: no reader for a topology file that ends in \"{}\": use .gml, .graphml, .csv or .toml",
        file.string(), extension));
  }
  return read(text, file.string(), options);
}

}  // namespace square
