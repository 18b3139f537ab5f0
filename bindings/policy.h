// Policies name nodes and links; a scenario numbers them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "square/scenario.h"

namespace square::python {

// A policy as Python describes it, before it knows its topology.
struct PolicyText {
  PolicySpec spec;  // without anything to avoid
  std::vector<std::string> avoid_nodes;
  std::vector<std::pair<std::string, std::string>> avoid_links;
  bool is_named = false;  // or is it the default?
};

// Raises NotFoundError for a node or a link that is not in the topology.
PolicySpec resolve(const PolicyText& text, const Topology& topology);
PolicyText describe(const PolicySpec& spec, const Topology& topology);

void bind_policy(py::module_& module);

}  // namespace square::python
