#include "square/scenario.h"

#include <algorithm>

#include "bindings.h"
#include "collective.h"
#include "names.h"
#include "policy.h"
#include "scenario_editing.h"

namespace square::python {
namespace {

Scenario make_scenario(const Topology& topology, const PolicyText& policy,
                       const std::vector<TenantSpec>& tenants, const std::vector<CollectiveText>& collectives,
                       std::string name) {
  Scenario scenario{std::move(name), topology, resolve(policy, topology), tenants, {}};
  for (const CollectiveText& text : collectives) {
    const CollectiveId id(static_cast<CollectiveId::value_type>(scenario.collectives.size()));
    scenario.collectives.push_back(make_collective(text, topology, id));
    const bool is_known = std::ranges::any_of(
        scenario.tenants, [&](const TenantSpec& tenant) { return tenant.name == text.tenant; });
    if (!is_known) scenario.tenants.push_back({text.tenant, 1.0});
  }
  check(check_scenario(scenario));
  return scenario;
}

std::vector<CollectiveView> collectives_of(const Scenario& scenario) {
  std::vector<CollectiveView> views;
  for (const CollectiveSpec& spec : scenario.collectives) views.push_back(view_of(spec, scenario.topology));
  return views;
}

void bind_tenant(py::module_& module) {
  py::class_<TenantSpec>(module, "Tenant")
      .def(py::init<std::string, double>(), py::arg("name"), py::arg("weight") = 1.0)
      .def_readonly("name", &TenantSpec::name)
      .def_readonly("weight", &TenantSpec::weight);
}

void bind_editing(py::class_<Scenario>& scenario) {
  scenario
      .def(
          "set_capacity",
          [](Scenario& self, const std::string& from, const std::string& to, double capacity_bps) {
            check(self.topology.set_capacity(link_named(self.topology, from, to), capacity_bps));
          },
          py::arg("from_node"), py::arg("to_node"), py::arg("capacity_bps"))
      .def("add_collective", &add_collective, py::arg("collective"),
           "Adds it and returns its id: the largest that there is plus one. A tenant that is new has weight "
           "1. The scenario stays as it was where the collective makes no sense.")
      .def("remove_collective", &remove_collective, py::arg("id"), "The others keep their ids.")
      .def("set_size", &set_size, py::arg("id"), py::arg("size_bytes"),
           "Of the buffer, as Collective has it.")
      .def("set_required_rate", &set_required_rate, py::arg("id"), py::arg("required_bps"),
           "For the objective \"cost\"; None takes it away. What makes no sense is said when it is planned.")
      .def("remove_node", &remove_node, py::arg("name"),
           "Takes the node out of the topology with its links, and out of every collective. A collective "
           "that had it for root, or that has fewer than 2 members then, goes too; the others keep their "
           "ids.");
}

}  // namespace

void bind_scenario(py::module_& module) {
  bind_policy(module);
  bind_tenant(module);
  bind_collective(module);
  py::class_<Scenario> scenario(module, "Scenario", "An overlay, a policy, tenants and their collectives.");
  scenario
      .def(py::init(&make_scenario), py::arg("topology"), py::arg_v("policy", PolicyText{}, "Policy()"),
           py::arg_v("tenants", std::vector<TenantSpec>{}, "[]"),
           py::arg_v("collectives", std::vector<CollectiveText>{}, "[]"), py::arg("name") = "scenario")
      .def_static(
          "read",
          [](const std::filesystem::path& path, const std::optional<std::string>& units) {
            const TopologyReadOptions options = read_options(units);
            return check(unlocked([&] { return read_scenario(path, options); }));
          },
          py::arg("path"), py::arg("units") = py::none(),
          "units, as Topology.read has it, overrides the file's.")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& source_name, const std::string& directory) {
            return check(parse_scenario(text, source_name, directory));
          },
          py::arg("text"), py::arg("source_name") = "<text>", py::arg("directory") = ".")
      .def_readonly("name", &Scenario::name)
      .def_readonly("topology", &Scenario::topology)
      .def_property(
          "policy", [](const Scenario& self) { return describe(self.policy, self.topology); },
          [](Scenario& self, const PolicyText& policy) { self.policy = resolve(policy, self.topology); },
          "A copy: assign another to change it. Names in it must be in the topology.")
      .def_readonly("tenants", &Scenario::tenants)
      .def_property_readonly("collectives", &collectives_of)
      .def("copy", [](const Scenario& self) { return self; });
  bind_editing(scenario);
}

}  // namespace square::python
