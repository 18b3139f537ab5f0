#include "square/node.h"

#include "bindings.h"
#include "identities.h"
#include "serving_node.h"
#include "square/controller.h"
#include "square/metrics.h"
#include "whole_number.h"

namespace square::python {
namespace {

std::shared_ptr<ServingNode> join(std::string name, std::optional<std::string> controller,
                                  std::string bind_address, std::string advertised_address,
                                  const IdentityArgument& identity, bool insecure,
                                  Size<"window_bytes"> window_bytes, bool paced, Controller* successor,
                                  Count<"standing"> standing, bool sealed) {
  const bool is_alone = !controller.has_value();
  NodeOptions options{std::move(name),
                      controller.value_or(""),
                      std::move(bind_address),
                      std::move(advertised_address),
                      identity_of(identity),
                      insecure,
                      sealed,
                      window_bytes,
                      paced,
                      successor,
                      standing};
  auto node = check(unlocked([&] { return is_alone ? Node::alone(options.name) : Node::join(options); }));
  // Its threads may wait for the interpreter (log callback), so it goes without the lock.
  return {new ServingNode(std::move(node)), [](ServingNode* gone) {
            if (PyGILState_Check() == 0) return delete gone;
            unlocked([&] { delete gone; });
          }};
}

py::dict to_dict(const NodeStatistics& now) {
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
  counters["blocks_forged"] = now.blocks_forged;
  counters["collectives"] = now.collectives;
  counters["sessions"] = now.sessions;
  return counters;
}

py::dict statistics(ServingNode& self) {
  return to_dict(unlocked([&] { return self.node().statistics(); }));
}

// None stands for no limit.
std::optional<double> limit(double rate_bps) {
  return rate_bps == kUnlimited ? std::nullopt : std::optional(rate_bps);
}

py::dict to_dict(const LinkMetrics& link) {
  py::dict named;
  named["peer"] = link.peer;
  named["direction"] = to_string(link.direction);
  named["is_up"] = link.is_up;
  named["bytes"] = link.bytes;
  named["blocks"] = link.blocks;
  named["blocks_resent"] = link.blocks_resent;
  named["wire_bytes"] = link.wire_bytes;
  named["capacity_bps"] = limit(link.capacity_bps);
  named["planned_bps"] = link.planned_bps;
  named["pace_bps"] = limit(link.pace_bps);
  named["queue_blocks"] = link.queue_blocks;
  named["queue_bytes"] = link.queue_bytes;
  named["round_trip_seconds"] = link.round_trip ? std::optional(to_seconds(*link.round_trip)) : std::nullopt;
  named["channels"] = link.channels;
  return named;
}

py::dict to_dict(const SessionMetrics& session) {
  py::dict named;
  named["session"] = session.id.value();
  named["collective"] = session.collective.value();
  named["tenant"] = session.tenant;
  named["kind"] = to_string(session.kind);
  named["planned_bps"] = session.planned_bps;
  named["planned_sent_bps"] = session.planned_sent_bps;
  named["planned_received_bps"] = session.planned_received_bps;
  named["bytes_sent"] = session.bytes_sent;
  named["bytes_received"] = session.bytes_received;
  named["bytes_delivered"] = session.bytes_delivered;
  named["blocks_sent"] = session.blocks_sent;
  named["blocks_received"] = session.blocks_received;
  named["blocks_resent"] = session.blocks_resent;
  named["queue_blocks"] = session.queue_blocks;
  named["queue_bytes"] = session.queue_bytes;
  return named;
}

py::dict to_dict(const TenantMetrics& tenant) {
  py::dict named;
  named["tenant"] = tenant.name;
  named["planned_bps"] = tenant.planned_bps;
  named["planned_sent_bps"] = tenant.planned_sent_bps;
  named["planned_received_bps"] = tenant.planned_received_bps;
  named["bytes_sent"] = tenant.bytes_sent;
  named["bytes_received"] = tenant.bytes_received;
  named["bytes_delivered"] = tenant.bytes_delivered;
  named["blocks_resent"] = tenant.blocks_resent;
  named["bytes_in_transit"] = tenant.bytes_in_transit;
  named["bytes_held"] = tenant.bytes_held;
  return named;
}

template <typename Metrics>
py::list to_list(const std::vector<Metrics>& all) {
  py::list list;
  for (const Metrics& one : all) list.append(to_dict(one));
  return list;
}

py::typing::Dict<py::str, py::object> metrics(ServingNode& self) {
  const NodeMetrics now = unlocked([&] { return self.node().metrics(); });
  py::typing::Dict<py::str, py::object> named;
  named["node"] = now.node;
  named["epoch"] = now.epoch ? std::optional(now.epoch->value()) : std::nullopt;
  named["totals"] = to_dict(now.totals);
  named["links"] = to_list(now.links);
  named["sessions"] = to_list(now.sessions);
  named["tenants"] = to_list(now.tenants);
  return named;
}

}  // namespace

void bind_node(py::module_& module) {
  py::class_<MemberHost, std::shared_ptr<MemberHost>>(
      module, "MemberHost", "Where members live: a Node of this process, or an AttachedNode.");
  py::class_<ServingNode, MemberHost, std::shared_ptr<ServingNode>>(
      module, "Node", "A node of the overlay, in this process: see square/node.h.")
      .def(
          py::init(&join), py::arg("name"), py::arg("controller") = py::none(),
          py::arg("bind_address") = "127.0.0.1:0", py::arg("advertised_address") = "",
          py::arg("identity") = py::none(), py::arg("insecure") = false,
          py::arg("window_bytes") = DataPlaneOptions{}.window_bytes, py::arg("paced") = true,
          py::arg("successor") = py::none(), py::arg("standing") = 0, py::arg("sealed") = true,
          py::keep_alive<1, 9>(),
          "Joins the overlay of the controller at host:port; without one the node is alone. ``successor``: a "
          "Controller of this process that follows when those before it are gone, by ``standing``: one that "
          "stands by, or the first itself. With an identity that an authority has signed blocks are sealed "
          "from "
          "their sources to their destinations, unless ``sealed`` is False: on all nodes of a group alike.")
      .def_property_readonly("name", &ServingNode::name)
      .def_property_readonly(
          "controller", [](ServingNode& self) { return self.node().controller(); },
          "The address of the controller that it follows now; empty for a node alone.")
      .def_property_readonly("address", [](ServingNode& self) { return self.node().address(); })
      .def("statistics", &statistics)
      .def(
          "metrics", &metrics,
          "What this node has carried and was planned to carry, in one snapshot: \"node\", \"epoch\" (None "
          "before the first plan), \"totals\" (as statistics()), and lists of dicts, \"links\", \"sessions\" "
          "and \"tenants\". Counters only grow; rates are bits per second, None for no limit. "
          "docs/monitoring.md names every key.")
      .def("stop", &ServingNode::stop, py::call_guard<py::gil_scoped_release>())
      .def(
          "__enter__", [](ServingNode& self) -> ServingNode& { return self; },
          py::return_value_policy::reference)
      .def("__exit__", [](ServingNode& self, const py::args&) { unlocked([&] { self.stop(); }); });
}

}  // namespace square::python
