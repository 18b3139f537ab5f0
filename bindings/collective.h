// Collectives name their members; a scenario numbers them.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "bindings.h"
#include "square/scenario.h"

namespace square::python {

// Bounds in seconds: one for every member but the root, or by name.
using LatencyBounds = std::variant<double, std::map<std::string, double>>;

// A collective as Python describes it, before it knows its scenario.
struct CollectiveText {
  std::string tenant;
  std::string op;
  std::optional<std::string> root;
  std::variant<std::string, std::vector<std::string>> members;
  std::uint64_t size_bytes = 0;
  double weight = 1.0;
  std::string algorithm;
  std::optional<double> required_bps;
  std::optional<LatencyBounds> max_latency;
  std::uint32_t redundancy = 0;
  std::string group;
};

// A collective of a scenario, as Python sees it.
struct CollectiveView {
  std::uint32_t id;
  std::string tenant;
  std::string op;
  std::optional<std::string> root;
  std::vector<std::string> members;
  std::uint64_t size_bytes;
  double weight;
  std::string algorithm;
  std::optional<double> required_bps;
  std::optional<std::map<std::string, double>> max_latency;
  std::uint32_t redundancy;
  std::string group;
};

// Raises InvalidArgumentError for another name than "planned" and "ring".
AllReduceAlgorithm algorithm_named(const std::string& name);

// Raises NotFoundError for an unknown node, InvalidArgumentError for what makes no sense
// whatever the scenario; check_scenario() does the rest.
CollectiveSpec make_collective(const CollectiveText& text, const Topology& topology, CollectiveId id);
CollectiveView view_of(const CollectiveSpec& spec, const Topology& topology);

void bind_collective(py::module_& module);

}  // namespace square::python
