// What the readers of GML and GraphML share: nodes have an id and a label.
#pragma once

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

}  // namespace square
