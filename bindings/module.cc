#include <pybind11/typing.h>

#include "bindings.h"
#include "square/log.h"
#include "square/process_memory.h"
#include "square/transport.h"

namespace square::python {
namespace {

using LogValue = py::typing::Union<py::str, py::int_>;
using LogCallback = py::typing::Callable<void(int, std::string, py::typing::Dict<py::str, LogValue>)>;

py::dict to_dict(const LogFields& fields) {
  py::dict named;
  named["component"] = fields.component;
  if (!fields.node.empty()) named["node"] = fields.node;
  if (!fields.peer.empty()) named["peer"] = fields.peer;
  if (fields.collective) named["collective"] = fields.collective->value();
  if (fields.epoch) named["epoch"] = fields.epoch->value();
  return named;
}

void set_log(std::optional<LogCallback> callback, int minimum) {
  if (!callback) return unlocked([] { set_log_sink({}); });
  // Messages come from threads that must not wait for an interpreter that is going away.
  auto function =
      std::shared_ptr<py::function>(new py::function(std::move(*callback)), [](py::function* held) {
        if (Py_IsInitialized() == 0) return;
        const py::gil_scoped_acquire lock;
        delete held;
      });
  LogSink sink = [function](LogLevel level, const LogFields& fields, std::string_view message) {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire lock;
    try {
      (*function)(static_cast<int>(level), message, to_dict(fields));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("square log callback");
    }
  };
  unlocked([&] { set_log_sink(std::move(sink), static_cast<LogLevel>(minimum)); });
}

}  // namespace
}  // namespace square::python

PYBIND11_MODULE(_core, module) {
  using namespace square::python;
  module.doc() = "The extension module of square; use the package, not this.";
  module.attr("__version__") = SQUARE_VERSION;
  module.attr("kProtocolVersion") = square::kProtocolVersion;
  bind_topology(module);
  bind_scenario(module);
  bind_plan(module);
  bind_limits(module);
  bind_planner(module);
  bind_identity(module);
  bind_controller(module);
  bind_net(module);
  bind_node(module);
  bind_outer_optimizer(module);
  bind_parameter_server(module);
  bind_gateway(module);
  bind_coding(module);
  bind_compression(module);
  bind_communicator(module);
  module.def("set_log", &set_log, py::arg("callback"),
             py::arg("minimum") = static_cast<int>(square::LogLevel::kInfo),
             "Sends the library's messages to callback(level, message, fields); None drops them.");
  module.def("tune_process_memory", &square::tune_process_memory,
             "For programs: has the allocator keep freed memory for the next transfer. Call it once, early; "
             "False where the allocator has no such setting.");
  module.def(
      "trim_process_memory", &square::trim_process_memory,
      pybind11::call_guard<pybind11::gil_scoped_release>(),
      "For programs: gives freed memory back to the kernel. Takes a millisecond for each 50 MiB or so. "
      "Returns whether anything was given back.");
  // Threads of nodes that live to the end must not wait for an interpreter that goes away.
  pybind11::module_::import("atexit").attr("register")(
      pybind11::cpp_function([] { unlocked([] { square::set_log_sink({}); }); }));
}
