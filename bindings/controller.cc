#include "square/controller.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "bindings.h"
#include "identities.h"
#include "policy.h"
#include "square/overlay_information.h"

namespace square::python {
namespace {

// Its threads may wait for the interpreter (log callback), so it goes without the lock.
struct UnlockedDelete {
  void operator()(Controller* gone) const {
    if (PyGILState_Check() == 0) return delete gone;
    unlocked([&] { delete gone; });
  }
};
using HeldController = std::unique_ptr<Controller, UnlockedDelete>;

// How long a wait goes on before it looks for Ctrl-C.
constexpr double kSignalCheckSeconds = 0.05;
constexpr double kListSeconds = 5.0;
constexpr double kExamineSeconds = 10.0;

void wait_for_nodes(const Controller& self, const std::vector<std::string>& names, double timeout) {
  const auto deadline = std::chrono::steady_clock::now() + from_seconds(timeout);
  for (;;) {
    const double left = to_seconds(deadline - std::chrono::steady_clock::now());
    const Duration slice = from_seconds(std::clamp(left, 0.0, kSignalCheckSeconds));
    const Status arrived = unlocked([&] { return self.wait_for_nodes(names, slice); });
    if (arrived.code() != StatusCode::kDeadlineExceeded || left <= kSignalCheckSeconds) return check(arrived);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// What the names in a policy refer to: the nodes and links of the active plan.
Topology planned_topology(const Controller& controller) {
  Topology topology;
  const auto plan = unlocked([&] { return controller.plan(); });
  if (plan == nullptr) return topology;
  for (const PlanNode& node : plan->nodes) check(topology.add_node({.name = node.name}));
  for (const PlanLink& link : plan->links) check(topology.add_link(link.from, link.to, {}));
  return topology;
}

// Of a controller that is told nothing: nodes that join form a full mesh of unlimited links.
Scenario open_overlay() {
  Scenario scenario;
  scenario.name = "overlay";
  return scenario;
}

HeldController start(const std::optional<Scenario>& given, std::string bind_address,
                     std::string advertised_address, const IdentityArgument& identity,
                     const std::filesystem::path& store, bool standing_by, bool insecure) {
  const Scenario scenario = given.value_or(open_overlay());
  ControllerOptions options;
  options.bind_address = std::move(bind_address);
  options.advertised_address = std::move(advertised_address);
  options.identity = identity_of(identity);
  options.insecure = insecure;
  options.store = store.string();
  auto made = unlocked([&] {
    return standing_by ? Controller::stand_by(options, scenario) : Controller::start(options, scenario);
  });
  return HeldController(check(std::move(made)).release());
}

void bind_links(py::module_& module) {
  py::class_<LinkInformation::Point>(module, "CapacityPoint", "What was measured of a link, once.")
      .def_readonly("system_seconds", &LinkInformation::Point::system_seconds)
      .def_readonly("capacity_bps", &LinkInformation::Point::capacity_bps)
      .def_readonly("is_probed", &LinkInformation::Point::is_probed);
  py::class_<LinkInformation>(module, "LinkInformation",
                              "What is known of a link of an overlay; times in seconds, 0: not known.")
      .def_readonly("from_node", &LinkInformation::from)
      .def_readonly("to_node", &LinkInformation::to)
      .def_property_readonly("given_bps", [](const LinkInformation& self) { return self.given.capacity_bps; })
      .def_property_readonly("latency",
                             [](const LinkInformation& self) { return to_seconds(self.given.latency); })
      .def_property_readonly("price_usd_per_gb",
                             [](const LinkInformation& self) { return self.given.price_usd_per_gb; })
      .def_property_readonly("is_fixed", [](const LinkInformation& self) { return self.given.is_fixed; })
      .def_readonly("planned_bps", &LinkInformation::planned_bps)
      .def_property_readonly("measured_bps",
                             [](const LinkInformation& self) { return self.measured.capacity_bps; })
      .def_property_readonly("is_probed", [](const LinkInformation& self) { return self.measured.is_probed; })
      .def_property_readonly("round_trip",
                             [](const LinkInformation& self) { return to_seconds(self.measured.round_trip); })
      .def_property_readonly("age", [](const LinkInformation& self) { return to_seconds(self.age); })
      .def_readonly("history", &LinkInformation::history);
  py::class_<OverlayInformation>(module, "OverlayInformation",
                                 "A controller's topology, and what was measured.")
      .def_readonly("topology", &OverlayInformation::topology)
      .def_readonly("links", &OverlayInformation::links);
}

void bind_examination(py::module_& module) {
  py::class_<ExaminedNode>(module, "ExaminedNode", "A node as its controller and the node itself see it.")
      .def_readonly("name", &ExaminedNode::name)
      .def_readonly("address", &ExaminedNode::address)
      .def_readonly("connected", &ExaminedNode::connected)
      .def_readonly("answered", &ExaminedNode::answered)
      .def_readonly("peers", &ExaminedNode::peers)
      .def_property_readonly("clock_ahead_seconds",
                             [](const ExaminedNode& self) { return to_seconds(self.clock_ahead); })
      .def_property_readonly("clock_doubt_seconds",
                             [](const ExaminedNode& self) { return to_seconds(self.clock_doubt); })
      .def_readonly("report_json", &ExaminedNode::report_json);
  py::class_<Suspicion>(module, "Suspicion", "Neighbours that differ about blocks that went between them.")
      .def_readonly("from_node", &Suspicion::from)
      .def_readonly("to_node", &Suspicion::to)
      .def_readonly("count", &Suspicion::count)
      .def_property_readonly("session", [](const Suspicion& self) { return self.session.value(); })
      .def_readonly("seconds", &Suspicion::seconds);
  py::class_<Examination>(module, "ExaminedOverlay", "What the nodes of an overlay say of it.")
      .def_readonly("version", &Examination::version)
      .def_readonly("control_protocol", &Examination::control_protocol)
      .def_readonly("nodes", &Examination::nodes)
      .def_readonly("suspicions", &Examination::suspicions);
  module.def(
      "examine_nodes",
      [](const std::string& controller, const IdentityArgument& identity, double timeout) {
        const auto own = identity_of(identity);
        return check(unlocked([&] { return examine(controller, own, from_seconds(timeout)); }));
      },
      py::arg("controller"), py::arg("identity") = py::none(), py::arg("timeout") = kExamineSeconds,
      "Has every node of the overlay of the controller at host:port look at itself and its peers.");
}

}  // namespace

void bind_controller(py::module_& module) {
  py::class_<NodeInformation>(module, "NodeInformation")
      .def_readonly("name", &NodeInformation::name)
      .def_readonly("address", &NodeInformation::address)
      .def_readonly("connected", &NodeInformation::connected)
      .def_property_readonly("installed", [](const NodeInformation& self) { return self.installed.value(); })
      .def_readonly("protocol_version", &NodeInformation::protocol_version);
  bind_links(module);
  py::class_<Controller, HeldController>(module, "Controller",
                                         "The control plane, in this process: see square/controller.h.")
      .def(py::init(&start), py::arg("scenario") = py::none(), py::arg("bind_address") = "127.0.0.1:0",
           py::arg("advertised_address") = "", py::arg("identity") = py::none(), py::arg("store") = "",
           py::kw_only(), py::arg("standing_by") = false, py::arg("insecure") = false)
      .def_property_readonly(
          "stands_by", &Controller::stands_by,
          "Whether it waits for its store, or for those before it to be gone; see Node's successor.")
      .def_property_readonly("has_stepped_down", &Controller::has_stepped_down,
                             "Whether another controller has its store: this one is of no use any more.")
      .def_property_readonly("address", &Controller::address)
      .def("plan",
           [](const Controller& self) {
             return std::const_pointer_cast<Plan>(unlocked([&] { return self.plan(); }));
           })
      .def(
          "set_policy",
          [](Controller& self, const PolicyText& policy) {
            const PolicySpec spec = resolve(policy, planned_topology(self));
            return check(unlocked([&] { return self.set_policy(spec); })).value();
          },
          py::arg("policy"))
      .def(
          "set_topology",
          [](Controller& self, const Topology& topology) {
            return check(unlocked([&] { return self.set_topology(topology); })).value();
          },
          py::arg("topology"))
      .def("nodes", &Controller::nodes, py::call_guard<py::gil_scoped_release>())
      .def("wait_for_nodes", &wait_for_nodes, py::arg("names"), py::arg("timeout"))
      .def("stop", &Controller::stop, py::call_guard<py::gil_scoped_release>())
      .def(
          "__enter__", [](Controller& self) -> Controller& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](Controller& self, const py::args&) { unlocked([&] { self.stop(); }); });
  module.def(
      "list_nodes",
      [](const std::string& controller, const IdentityArgument& identity, double timeout) {
        const auto own = identity_of(identity);
        return check(unlocked([&] { return list_nodes(controller, own, from_seconds(timeout)); }));
      },
      py::arg("controller"), py::arg("identity") = py::none(), py::arg("timeout") = kListSeconds,
      "The nodes of the overlay of the controller at host:port, and which of them are connected.");
  module.def(
      "list_links",
      [](const std::string& controller, const IdentityArgument& identity, double timeout) {
        const auto own = identity_of(identity);
        return check(unlocked([&] { return list_links(controller, own, from_seconds(timeout)); }));
      },
      py::arg("controller"), py::arg("identity") = py::none(), py::arg("timeout") = kListSeconds,
      "The topology of the controller at host:port, and what was measured of its links.");
  bind_examination(module);
}

}  // namespace square::python
