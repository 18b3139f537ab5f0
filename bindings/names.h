// Python speaks of nodes by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "square/topology.h"

namespace square::python {

// Raises NotFoundError.
NodeId node_named(const Topology& topology, const std::string& name);
LinkId link_named(const Topology& topology, const std::string& from, const std::string& to);
// The options of read_topology() for a unit's name. Raises InvalidArgumentError.
TopologyReadOptions read_options(const std::optional<std::string>& units);
std::vector<std::string> names_of(const Topology& topology, const std::vector<NodeId>& nodes);

}  // namespace square::python
