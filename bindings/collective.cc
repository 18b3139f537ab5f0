#include "collective.h"

#include <algorithm>
#include <cmath>

#include "names.h"
#include "whole_number.h"

namespace square::python {
namespace {

bool is_root(const CollectiveSpec& spec, NodeId node) { return has_root(spec.op) && node == spec.root; }

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

Duration latency_bound(double seconds) {
  // What is shorter than a nanosecond becomes zero, which check_scenario() refuses.
  if (std::isfinite(seconds) && seconds > 0) return from_seconds(seconds);
  raise(invalid_argument("max_latency must be above 0 and finite, not " + std::to_string(seconds)));
}

std::vector<Duration> latency_bounds(const LatencyBounds& bounds, const CollectiveSpec& spec,
                                     const Topology& topology) {
  std::vector<Duration> by_member(spec.members.size(), Duration::max());
  if (const auto* const seconds = std::get_if<double>(&bounds)) {
    for (std::size_t i = 0; i < by_member.size(); ++i) {
      if (!is_root(spec, spec.members[i])) by_member[i] = latency_bound(*seconds);
    }
    return by_member;
  }
  for (const auto& [name, seconds] : std::get<std::map<std::string, double>>(bounds)) {
    const auto member = std::ranges::find(spec.members, node_named(topology, name));
    if (member == spec.members.end()) {
      raise(invalid_argument("max_latency: \"" + name + "\" is not a member of this collective"));
    }
    if (is_root(spec, *member)) {
      raise(invalid_argument("max_latency: \"" + name + "\" is the root: leave it out"));
    }
    by_member[static_cast<std::size_t>(member - spec.members.begin())] = latency_bound(seconds);
  }
  return by_member;
}

CollectiveText make_text(std::string tenant, std::string op, std::optional<std::string> root,
                         std::variant<std::string, std::vector<std::string>> members,
                         Size<"size_bytes"> size_bytes, double weight, std::string algorithm,
                         std::optional<double> required_bps,
                         std::optional<std::variant<Time, std::map<std::string, Time>>> max_latency,
                         Count<"redundancy"> redundancy, std::string group) {
  std::optional<LatencyBounds> bounds;
  if (max_latency && std::holds_alternative<Time>(*max_latency)) {
    bounds = seconds_of(std::get<Time>(*max_latency));
  } else if (max_latency) {
    std::map<std::string, double> by_name;
    for (const auto& [name, time] : std::get<std::map<std::string, Time>>(*max_latency)) {
      by_name[name] = seconds_of(time);
    }
    bounds = std::move(by_name);
  }
  return {std::move(tenant),    std::move(op), std::move(root),   std::move(members), size_bytes,      weight,
          std::move(algorithm), required_bps,  std::move(bounds), redundancy,         std::move(group)};
}

}  // namespace

AllReduceAlgorithm algorithm_named(const std::string& name) {
  if (name == "planned") return AllReduceAlgorithm::kPlanned;
  if (name == "ring") return AllReduceAlgorithm::kRing;
  raise(invalid_argument("algorithm must be \"planned\" or \"ring\", not \"" + name + "\""));
}

CollectiveSpec make_collective(const CollectiveText& text, const Topology& topology, CollectiveId id) {
  CollectiveSpec spec;
  spec.id = id;
  spec.tenant = text.tenant;
  spec.weight = text.weight;
  spec.op = check(parse_collective_op(text.op));
  spec.algorithm = algorithm_named(text.algorithm);
  if (text.algorithm == "ring" && spec.op != CollectiveOp::kAllReduce) {
    raise(invalid_argument("\"ring\" is for all_reduce, not for " + text.op + ": leave it out"));
  }
  spec.size_bytes = text.size_bytes;
  spec.members = member_ids(text, topology);
  if (has_root(spec.op) && !text.root) raise(invalid_argument(text.op + " needs a root"));
  if (text.root) spec.root = node_named(topology, *text.root);
  spec.required_bps = text.required_bps;
  spec.redundancy = text.redundancy;
  spec.group = text.group;
  if (text.max_latency) spec.max_latency = latency_bounds(*text.max_latency, spec, topology);
  return spec;
}

CollectiveView view_of(const CollectiveSpec& spec, const Topology& topology) {
  CollectiveView view{spec.id.value(),
                      spec.tenant,
                      std::string(to_string(spec.op)),
                      std::nullopt,
                      names_of(topology, spec.members),
                      spec.size_bytes,
                      spec.weight,
                      spec.algorithm == AllReduceAlgorithm::kRing ? "ring" : "planned",
                      spec.required_bps,
                      std::nullopt,
                      spec.redundancy,
                      spec.group};
  if (has_root(spec.op)) view.root = topology.node(spec.root).name;
  if (!spec.max_latency.empty()) view.max_latency.emplace();
  for (std::size_t i = 0; i < spec.max_latency.size(); ++i) {
    if (spec.max_latency[i] == Duration::max()) continue;
    view.max_latency->emplace(view.members[i], to_seconds(spec.max_latency[i]));
  }
  return view;
}

void bind_collective(py::module_& module) {
  py::class_<CollectiveText>(
      module, "Collective",
      "One collective of a tenant, to make a Scenario with. With the policy \"exact\": ``required_bps``, the "
      "rate that it must have where the objective is \"cost\"; and ``max_latency``, seconds or a timedelta, "
      "for all members or by name, that no stream takes longer than from the root to the member (in a "
      "reduce: to the root); and ``redundancy``, of a broadcast: whichever so many relays and links are "
      "lost, nothing is sent again, as so many ways more carry sums of the blocks. Collectives of one "
      "tenant's "
      "``group`` follow one another: with the policy \"exact\" each has all that the group has.")
      .def(py::init(&make_text), py::arg("tenant"), py::arg("op") = "broadcast", py::arg("root") = py::none(),
           py::arg("members") = "all", py::arg("size_bytes") = 0, py::arg("weight") = 1.0,
           py::arg("algorithm") = "planned", py::arg("required_bps") = py::none(),
           py::arg("max_latency") = py::none(), py::arg("redundancy") = 0, py::arg("group") = "")
      .def_readonly("tenant", &CollectiveText::tenant)
      .def_readonly("op", &CollectiveText::op)
      .def_readonly("root", &CollectiveText::root)
      .def_readonly("members", &CollectiveText::members)
      .def_readonly("size_bytes", &CollectiveText::size_bytes)
      .def_readonly("weight", &CollectiveText::weight)
      .def_readonly("algorithm", &CollectiveText::algorithm)
      .def_readonly("required_bps", &CollectiveText::required_bps)
      .def_readonly("max_latency", &CollectiveText::max_latency, "Seconds.")
      .def_readonly("redundancy", &CollectiveText::redundancy)
      .def_readonly("group", &CollectiveText::group);
  py::class_<CollectiveView>(module, "CollectiveView", "One collective of a scenario.")
      .def_readonly("id", &CollectiveView::id)
      .def_readonly("tenant", &CollectiveView::tenant)
      .def_readonly("op", &CollectiveView::op)
      .def_readonly("root", &CollectiveView::root)
      .def_readonly("members", &CollectiveView::members)
      .def_readonly("size_bytes", &CollectiveView::size_bytes)
      .def_readonly("weight", &CollectiveView::weight)
      .def_readonly("algorithm", &CollectiveView::algorithm)
      .def_readonly("required_bps", &CollectiveView::required_bps)
      .def_readonly("max_latency", &CollectiveView::max_latency,
                    "Seconds, by member; members without a bound are left out.")
      .def_readonly("redundancy", &CollectiveView::redundancy)
      .def_readonly("group", &CollectiveView::group, "Empty: it runs beside all others.");
}

}  // namespace square::python
