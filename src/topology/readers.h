// The readers of each format, with what the caller knows of the file.
#pragma once

#include <string_view>

#include "square/topology.h"

namespace square {

// As parse_gml(), parse_graphml() and parse_csv().
Result<Topology> read_gml(std::string_view text, std::string_view source_name,
                          const TopologyReadOptions& options);
Result<Topology> read_graphml(std::string_view text, std::string_view source_name,
                              const TopologyReadOptions& options);
Result<Topology> read_csv(std::string_view text, std::string_view source_name,
                          const TopologyReadOptions& options);

}  // namespace square
