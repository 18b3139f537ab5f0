#include "square/gateway.h"

#include <pybind11/typing.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "bindings.h"
#include "serving_node.h"
#include "whole_number.h"

namespace square::python {
namespace {

// A user's number and a tenant, "*" for any.
using Users = std::vector<std::pair<Count<"a user">, std::string>>;

std::string serve_gateway(ServingNode& self, const std::filesystem::path& path, const Users& users,
                          Size<"max_attachments"> max_attachments, Size<"max_groups"> max_groups,
                          Size<"max_operations"> max_operations,
                          Size<"tenant_staging_bytes"> tenant_staging_bytes,
                          Size<"staging_bytes"> staging_bytes, bool shared_memory) {
  GatewayOptions options;
  options.socket_path = path.string();
  for (const auto& [user, tenant] : users) options.users.push_back({user, tenant});
  options.max_attachments = max_attachments;
  options.max_groups = max_groups;
  options.max_operations = max_operations;
  options.tenant_staging_bytes = tenant_staging_bytes;
  options.staging_bytes = staging_bytes;
  options.shared_memory = shared_memory;
  return check(unlocked([&] { return self.serve_gateway(std::move(options)); }));
}

py::typing::Dict<py::str, py::int_> gateway_statistics(ServingNode& self) {
  const Gateway::Statistics now = unlocked([&] { return self.gateway_statistics(); });
  py::typing::Dict<py::str, py::int_> counters;
  counters["attachments"] = now.attachments;
  counters["operations"] = now.operations;
  counters["staging_bytes"] = now.staging_bytes;
  return counters;
}

std::shared_ptr<AttachedNode> attach(const std::filesystem::path& path, std::string tenant,
                                     bool shared_memory, double timeout) {
  AttachOptions options{path.string(), std::move(tenant), shared_memory, from_seconds(timeout)};
  auto node = check(unlocked([&] { return AttachedNode::attach(std::move(options)); }));
  // Its threads end calls whose owners may wait for the interpreter, so it goes without the lock.
  return {node.release(), [](AttachedNode* gone) {
            if (PyGILState_Check() == 0) return delete gone;
            unlocked([&] { delete gone; });
          }};
}

constexpr double kDefaultAttachTimeoutSeconds = 5.0;

}  // namespace

void bind_gateway(py::module_& module) {
  const GatewayOptions defaults;
  py::class_<ServingNode, MemberHost, std::shared_ptr<ServingNode>>(module.attr("Node"))
      .def("serve_gateway", &serve_gateway, py::arg("path") = "", py::kw_only(), py::arg("users") = Users{},
           py::arg("max_attachments") = defaults.max_attachments, py::arg("max_groups") = defaults.max_groups,
           py::arg("max_operations") = defaults.max_operations,
           py::arg("tenant_staging_bytes") = defaults.tenant_staging_bytes,
           py::arg("staging_bytes") = defaults.staging_bytes,
           py::arg("shared_memory") = defaults.shared_memory,
           "Serves other processes as a gateway until the node stops; returns the socket's path.")
      .def("gateway_statistics", &gateway_statistics, "What the gateway serves now; zeros without one.");
  py::class_<AttachedNode, MemberHost, std::shared_ptr<AttachedNode>>(
      module, "AttachedNode", "A gateway's node, in another process: see square/gateway.h.")
      .def_property_readonly("name", &AttachedNode::name)
      .def_property_readonly("is_shared", &AttachedNode::is_shared,
                             "Whether data goes through shared memory.")
      .def_property_readonly("why_streamed", &AttachedNode::why_streamed, "If it does not, why.")
      .def("stop", &AttachedNode::leave, py::call_guard<py::gil_scoped_release>(), "Leaves the gateway.")
      .def(
          "__enter__", [](AttachedNode& self) -> AttachedNode& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](AttachedNode& self, const py::args&) { unlocked([&] { self.leave(); }); });
  module.def("attach", &attach, py::arg("gateway"), py::kw_only(), py::arg("tenant") = "",
             py::arg("shared_memory") = true, py::arg("timeout") = kDefaultAttachTimeoutSeconds,
             "Attaches this process to a gateway; the node that it returns has this process's members.");
}

}  // namespace square::python
