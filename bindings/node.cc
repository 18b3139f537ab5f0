#include "bindings.h"
#include "square/overlay_node.h"

namespace square::python {
namespace {

std::shared_ptr<OverlayNode> join(std::string name, std::string controller, std::string bind_address,
                                  std::string advertised_address, std::string token, std::size_t window_bytes,
                                  bool paced) {
  OverlayNodeOptions options{std::move(name),
                             std::move(controller),
                             std::move(bind_address),
                             std::move(advertised_address),
                             std::move(token),
                             window_bytes,
                             paced};
  auto node = check(unlocked([&] { return OverlayNode::join(options); }));
  // Its threads may wait for the interpreter (log callback), so it goes without the lock.
  return {node.release(), [](OverlayNode* gone) {
            if (PyGILState_Check() == 0) return delete gone;
            unlocked([&] { delete gone; });
          }};
}

py::dict statistics(OverlayNode& self) {
  const NodeStatistics now = unlocked([&] { return self.statistics(); });
  py::dict counters;
  counters["blocks_sent"] = now.blocks_sent;
  counters["blocks_received"] = now.blocks_received;
  counters["blocks_resent"] = now.blocks_resent;
  counters["bytes_sent"] = now.bytes_sent;
  counters["bytes_received"] = now.bytes_received;
  counters["bytes_delivered"] = now.bytes_delivered;
  counters["bytes_in_transit"] = now.bytes_in_transit;
  counters["bytes_in_transit_max"] = now.bytes_in_transit_max;
  counters["frames_refused"] = now.frames_refused;
  return counters;
}

}  // namespace

void bind_node(py::module_& module) {
  py::class_<OverlayNode, std::shared_ptr<OverlayNode>>(
      module, "Node", "A node of the overlay, in this process: see square/overlay_node.h.")
      .def(py::init(&join), py::arg("name"), py::arg("controller"), py::arg("bind_address") = "127.0.0.1:0",
           py::arg("advertised_address") = "", py::arg("token") = "",
           py::arg("window_bytes") = NodeOptions{}.window_bytes, py::arg("paced") = true)
      .def_property_readonly("name", &OverlayNode::name)
      .def_property_readonly("address", &OverlayNode::address)
      .def("statistics", &statistics)
      .def("stop", &OverlayNode::stop, py::call_guard<py::gil_scoped_release>())
      .def(
          "__enter__", [](OverlayNode& self) -> OverlayNode& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](OverlayNode& self, const py::args&) { unlocked([&] { self.stop(); }); });
}

}  // namespace square::python
