#include "square/scenario.h"

#include "bindings.h"
#include "names.h"

namespace square::python {
namespace {

constexpr const char* kCollectiveFairness = "collective";
constexpr const char* kTenantFairness = "tenant";

Fairness parse_fairness(const std::string& text) {
  if (text == kCollectiveFairness) return Fairness::kCollective;
  if (text == kTenantFairness) return Fairness::kTenant;
  raise(invalid_argument("fairness must be \"collective\" or \"tenant\", not \"" + text + "\""));
}

PolicySpec make_policy(std::string name, int shots, const std::string& paths, const std::string& fairness) {
  return {std::move(name), shots, check(parse_path_choice(paths)), parse_fairness(fairness)};
}

// A collective as Python describes it, before it knows its scenario.
struct CollectiveText {
  std::string tenant;
  std::string op = "broadcast";
  std::optional<std::string> root;
  std::variant<std::string, std::vector<std::string>> members;
  std::uint64_t size_bytes = 0;
  double weight = 1.0;
  std::string algorithm = "planned";
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
};

bool has_root(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || op == CollectiveOp::kGather ||
         op == CollectiveOp::kScatter;
}

std::vector<NodeId> member_ids(const CollectiveText& text, const Topology& topology) {
  std::vector<NodeId> members;
  if (const auto* list = std::get_if<std::vector<std::string>>(&text.members)) {
    for (const std::string& name : *list) members.push_back(node_named(topology, name));
  } else if (std::get<std::string>(text.members) == "all") {
    for (std::uint32_t id = 0; id < topology.node_count(); ++id) members.emplace_back(id);
  } else {
    raise(invalid_argument("members must be \"all\" or a list of node names"));
  }
  return members;
}

CollectiveSpec make_collective(const CollectiveText& text, const Topology& topology, std::uint32_t id) {
  CollectiveSpec spec;
  spec.id = CollectiveId(id);
  spec.tenant = text.tenant;
  spec.weight = text.weight;
  spec.op = check(parse_collective_op(text.op));
  if (text.algorithm != "planned" && text.algorithm != "ring") {
    raise(invalid_argument("algorithm must be \"planned\" or \"ring\", not \"" + text.algorithm + "\""));
  }
  spec.algorithm = text.algorithm == "ring" ? AllReduceAlgorithm::kRing : AllReduceAlgorithm::kPlanned;
  spec.size_bytes = text.size_bytes;
  spec.members = member_ids(text, topology);
  if (has_root(spec.op) && !text.root) raise(invalid_argument(text.op + " needs a root"));
  if (text.root) spec.root = node_named(topology, *text.root);
  return spec;
}

Scenario make_scenario(const Topology& topology, const PolicySpec& policy,
                       const std::vector<TenantSpec>& tenants, const std::vector<CollectiveText>& collectives,
                       std::string name) {
  Scenario scenario{std::move(name), topology, policy, tenants, {}};
  for (const CollectiveText& text : collectives) {
    const auto id = static_cast<std::uint32_t>(scenario.collectives.size());
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
  for (const CollectiveSpec& spec : scenario.collectives) {
    CollectiveView view{spec.id.value(),
                        spec.tenant,
                        std::string(to_string(spec.op)),
                        std::nullopt,
                        names_of(scenario.topology, spec.members),
                        spec.size_bytes,
                        spec.weight};
    if (has_root(spec.op)) view.root = scenario.topology.node(spec.root).name;
    views.push_back(std::move(view));
  }
  return views;
}

void bind_parts(py::module_& module) {
  py::class_<PolicySpec>(module, "Policy", "How to plan: see square/planner.h.")
      .def(py::init(&make_policy), py::arg("name") = "square", py::arg("shots") = 3,
           py::arg("paths") = "shortest", py::arg("fairness") = kCollectiveFairness)
      .def_readonly("name", &PolicySpec::name)
      .def_readonly("shots", &PolicySpec::shots)
      .def_property_readonly("paths", [](const PolicySpec& self) { return to_string(self.paths); })
      .def_property_readonly("fairness", [](const PolicySpec& self) {
        return self.fairness == Fairness::kTenant ? kTenantFairness : kCollectiveFairness;
      });
  py::class_<TenantSpec>(module, "Tenant")
      .def(py::init<std::string, double>(), py::arg("name"), py::arg("weight") = 1.0)
      .def_readonly("name", &TenantSpec::name)
      .def_readonly("weight", &TenantSpec::weight);
  py::class_<CollectiveText>(module, "Collective", "One collective of a tenant, to make a Scenario with.")
      .def(
          py::init<std::string, std::string, std::optional<std::string>,
                   std::variant<std::string, std::vector<std::string>>, std::uint64_t, double, std::string>(),
          py::arg("tenant"), py::arg("op") = "broadcast", py::arg("root") = py::none(),
          py::arg("members") = "all", py::arg("size_bytes") = 0, py::arg("weight") = 1.0,
          py::arg("algorithm") = "planned")
      .def_readonly("tenant", &CollectiveText::tenant)
      .def_readonly("op", &CollectiveText::op)
      .def_readonly("root", &CollectiveText::root)
      .def_readonly("members", &CollectiveText::members)
      .def_readonly("size_bytes", &CollectiveText::size_bytes)
      .def_readonly("weight", &CollectiveText::weight)
      .def_readonly("algorithm", &CollectiveText::algorithm);
  py::class_<CollectiveView>(module, "CollectiveView", "One collective of a scenario.")
      .def_readonly("id", &CollectiveView::id)
      .def_readonly("tenant", &CollectiveView::tenant)
      .def_readonly("op", &CollectiveView::op)
      .def_readonly("root", &CollectiveView::root)
      .def_readonly("members", &CollectiveView::members)
      .def_readonly("size_bytes", &CollectiveView::size_bytes)
      .def_readonly("weight", &CollectiveView::weight);
}

}  // namespace

void bind_scenario(py::module_& module) {
  bind_parts(module);
  py::class_<Scenario>(module, "Scenario", "An overlay, a policy, tenants and their collectives.")
      .def(py::init(&make_scenario), py::arg("topology"), py::arg_v("policy", PolicySpec{}, "Policy()"),
           py::arg_v("tenants", std::vector<TenantSpec>{}, "[]"),
           py::arg_v("collectives", std::vector<CollectiveText>{}, "[]"), py::arg("name") = "scenario")
      .def_static(
          "read",
          [](const std::filesystem::path& path) {
            return check(unlocked([&] { return read_scenario(path); }));
          },
          py::arg("path"))
      .def_static(
          "parse",
          [](const std::string& text, const std::string& source_name, const std::string& directory) {
            return check(parse_scenario(text, source_name, directory));
          },
          py::arg("text"), py::arg("source_name") = "<text>", py::arg("directory") = ".")
      .def_readonly("name", &Scenario::name)
      .def_readonly("topology", &Scenario::topology)
      .def_readwrite("policy", &Scenario::policy)
      .def_readonly("tenants", &Scenario::tenants)
      .def_property_readonly("collectives", &collectives_of)
      .def("copy", [](const Scenario& self) { return self; });
}

}  // namespace square::python
