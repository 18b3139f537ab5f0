#include "policy.h"

#include "names.h"

namespace square::python {
namespace {

constexpr const char* kCollectiveFairness = "collective";
constexpr const char* kTenantFairness = "tenant";
constexpr const char* kFairObjective = "fair";
constexpr const char* kCostObjective = "cost";

Fairness parse_fairness(const std::string& text) {
  if (text == kCollectiveFairness) return Fairness::kCollective;
  if (text == kTenantFairness) return Fairness::kTenant;
  raise(invalid_argument("fairness must be \"collective\" or \"tenant\", not \"" + text + "\""));
}

Objective parse_objective(const std::string& text) {
  if (text == kFairObjective) return Objective::kFair;
  if (text == kCostObjective) return Objective::kCost;
  raise(invalid_argument("objective must be \"fair\" or \"cost\", not \"" + text + "\""));
}

PolicyText make_policy(std::string name, int shots, const std::string& paths, const std::string& fairness,
                       const std::string& objective, double gap, std::optional<Time> deadline,
                       std::int64_t max_streams, std::optional<double> budget_usd_per_hour, double headroom,
                       std::vector<std::string> avoid_nodes,
                       std::vector<std::pair<std::string, std::string>> avoid_links) {
  PolicySpec spec;
  spec.name = std::move(name);
  spec.shots = shots;
  spec.paths = check(parse_path_choice(paths));
  spec.fairness = parse_fairness(fairness);
  spec.objective = parse_objective(objective);
  spec.gap = gap;
  if (deadline) spec.deadline_seconds = seconds_of(*deadline);
  if (max_streams < 0) {
    raise(invalid_argument("max_streams must be 0 or above, not " + std::to_string(max_streams)));
  }
  spec.max_streams = static_cast<std::size_t>(max_streams);
  spec.budget_usd_per_hour = budget_usd_per_hour;
  spec.headroom = headroom;
  return {std::move(spec), std::move(avoid_nodes), std::move(avoid_links)};
}

}  // namespace

PolicySpec resolve(const PolicyText& text, const Topology& topology) {
  PolicySpec spec = text.spec;
  for (const std::string& name : text.avoid_nodes) spec.avoid_nodes.push_back(node_named(topology, name));
  for (const auto& [from, to] : text.avoid_links) spec.avoid_links.push_back(link_named(topology, from, to));
  return spec;
}

PolicyText describe(const PolicySpec& spec, const Topology& topology) {
  PolicyText text{spec, names_of(topology, spec.avoid_nodes), {}};
  for (const LinkId id : spec.avoid_links) {
    const TopologyLink& link = topology.link(id);
    text.avoid_links.emplace_back(topology.node(link.from).name, topology.node(link.to).name);
  }
  text.spec.avoid_nodes.clear();
  text.spec.avoid_links.clear();
  return text;
}

void bind_policy(py::module_& module) {
  py::class_<PolicyText>(
      module, "Policy",
      "How to plan; docs/scenario.md says what each part means. All from ``objective`` on "
      "is for the policy \"exact\"; what is wrong is said where the policy meets a scenario.")
      .def(py::init(&make_policy), py::arg("name") = "square", py::arg("shots") = 3,
           py::arg("paths") = "shortest", py::arg("fairness") = kCollectiveFairness,
           py::arg("objective") = kFairObjective, py::arg("gap") = kDefaultGap,
           py::arg("deadline") = py::none(), py::arg("max_streams") = 0,
           py::arg("budget_usd_per_hour") = py::none(), py::arg("headroom") = 0.0,
           py::arg("avoid_nodes") = std::vector<std::string>(),
           py::arg("avoid_links") = std::vector<std::pair<std::string, std::string>>())
      .def_property_readonly("name", [](const PolicyText& self) { return self.spec.name; })
      .def_property_readonly("shots", [](const PolicyText& self) { return self.spec.shots; })
      .def_property_readonly("paths", [](const PolicyText& self) { return to_string(self.spec.paths); })
      .def_property_readonly("fairness",
                             [](const PolicyText& self) {
                               return self.spec.fairness == Fairness::kTenant ? kTenantFairness
                                                                              : kCollectiveFairness;
                             })
      .def_property_readonly("objective",
                             [](const PolicyText& self) {
                               return self.spec.objective == Objective::kCost ? kCostObjective
                                                                              : kFairObjective;
                             })
      .def_property_readonly("gap", [](const PolicyText& self) { return self.spec.gap; })
      .def_property_readonly(
          "deadline", [](const PolicyText& self) { return self.spec.deadline_seconds; }, "Seconds.")
      .def_property_readonly("max_streams", [](const PolicyText& self) { return self.spec.max_streams; })
      .def_property_readonly("budget_usd_per_hour",
                             [](const PolicyText& self) { return self.spec.budget_usd_per_hour; })
      .def_property_readonly("headroom", [](const PolicyText& self) { return self.spec.headroom; })
      .def_readonly("avoid_nodes", &PolicyText::avoid_nodes)
      .def_readonly("avoid_links", &PolicyText::avoid_links);
}

}  // namespace square::python
