// What the readers of GML and GraphML share: nodes have an id and a label, edges a speed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/topology.h"

namespace square {

struct LabelledNode {
  std::string id;
  std::string label;
};

// One name for each node: its label, with the id behind it, as in "Athens (3)", where the
// label is empty or somebody else's name.
std::vector<std::string> unique_names(const std::vector<LabelledNode>& nodes);

// A speed in bits per second; nothing where the file has words instead, such as "unknown".
// Errors: INVALID_ARGUMENT for a number that is not above 0 and finite.
Result<std::optional<double>> parse_speed(std::string_view text);

// The speeds that a file may give an edge.
struct EdgeSpeed {
  std::optional<double> link_speed_bps;  // LinkSpeedRaw: where both are there, this one counts
  std::optional<double> bandwidth_bps;
};

// Adds one link, or one for each direction. A loop carries nothing and is left out.
// Errors: as Topology::add_link().
Status add_edge(Topology& topology, NodeId source, NodeId target, bool directed, const EdgeSpeed& speed);

}  // namespace square
