#include "square/controller.h"

#include "bindings.h"

namespace square::python {
namespace {

std::unique_ptr<Controller> start(const Scenario& scenario, std::string bind_address,
                                  std::string advertised_address, std::string token) {
  ControllerOptions options;
  options.bind_address = std::move(bind_address);
  options.advertised_address = std::move(advertised_address);
  options.token = std::move(token);
  return check(unlocked([&] { return Controller::start(options, scenario); }));
}

}  // namespace

void bind_controller(py::module_& module) {
  py::class_<NodeInformation>(module, "NodeInformation")
      .def_readonly("name", &NodeInformation::name)
      .def_readonly("address", &NodeInformation::address)
      .def_readonly("connected", &NodeInformation::connected)
      .def_property_readonly("installed", [](const NodeInformation& self) { return self.installed.value(); });
  py::class_<Controller>(module, "Controller", "The control plane, in this process: see square/controller.h.")
      .def(py::init(&start), py::arg("scenario"), py::arg("bind_address") = "127.0.0.1:0",
           py::arg("advertised_address") = "", py::arg("token") = "")
      .def_property_readonly("address", &Controller::address)
      .def("plan", [](const Controller& self) { return std::const_pointer_cast<Plan>(self.plan()); })
      .def(
          "set_policy",
          [](Controller& self, const PolicySpec& policy) {
            return check(unlocked([&] { return self.set_policy(policy); })).value();
          },
          py::arg("policy"))
      .def(
          "set_topology",
          [](Controller& self, const Topology& topology) {
            return check(unlocked([&] { return self.set_topology(topology); })).value();
          },
          py::arg("topology"))
      .def("nodes", &Controller::nodes, py::call_guard<py::gil_scoped_release>())
      .def(
          "wait_for_nodes",
          [](const Controller& self, const std::vector<std::string>& names, double timeout) {
            check(unlocked([&] { return self.wait_for_nodes(names, from_seconds(timeout)); }));
          },
          py::arg("names"), py::arg("timeout"))
      .def("stop", &Controller::stop, py::call_guard<py::gil_scoped_release>())
      .def(
          "__enter__", [](Controller& self) -> Controller& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](Controller& self, const py::args&) { unlocked([&] { self.stop(); }); });
}

}  // namespace square::python
