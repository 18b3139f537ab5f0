// Topology files: which reader takes which, and the reader of TOML tables.
#include <fmt/format.h>

#include "base/check.h"
#include "square/topology.h"
#include "topology/overlay_tables.h"
#include "topology/text.h"

namespace square {

Result<Topology> parse_topology_toml(std::string_view text, std::string_view source_name) {
  SQUARE_ASSIGN_OR_RETURN(const auto root, TomlTable::parse(text, source_name));
  SQUARE_RETURN_IF_ERROR(root.allow_only({"node", "link"}));
  SQUARE_ASSIGN_OR_RETURN(const auto nodes, read_node_tables(root, "node"));
  SQUARE_ASSIGN_OR_RETURN(const auto links, read_link_tables(root, "link"));
  Topology topology;
  SQUARE_RETURN_IF_ERROR(apply_nodes(topology, nodes));
  SQUARE_RETURN_IF_ERROR(add_links(topology, links, nodes.empty()));
  return topology;
}

Result<Topology> read_topology(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const auto parse = extension == ".gml"       ? parse_gml
                     : extension == ".graphml" ? parse_graphml
                     : extension == ".csv"     ? parse_csv
                     : extension == ".toml"    ? parse_topology_toml
                                               : nullptr;
  SQUARE_ASSIGN_OR_RETURN(const std::string text, read_text_file(file, kMaxTopologyFileBytes));
  if (parse == nullptr) {
    return invalid_argument(fmt::format(
        "{}: no reader for a topology file that ends in \"{}\": use .gml, .graphml, .csv or .toml",
        file.string(), extension));
  }
  return parse(text, file.string());
}

}  // namespace square
