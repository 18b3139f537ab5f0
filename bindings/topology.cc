#include "square/topology.h"

#include "bindings.h"
#include "names.h"
#include "square/paths.h"
#include "square/reachability.h"
#include "whole_number.h"

namespace square::python {
namespace {

struct LinkView {
  std::string from_node;
  std::string to_node;
  double capacity_bps;
  double latency;
  double price_usd_per_gb;
  double capacity_stddev_bps;
};

LinkProperties properties(std::optional<double> capacity_bps, double latency, double price_usd_per_gb,
                          double capacity_stddev_bps) {
  if (!(latency >= 0)) raise(invalid_argument("the latency must be 0 seconds or above"));  // also refuses NaN
  return {limit_or_unlimited(capacity_bps), from_seconds(latency), price_usd_per_gb, capacity_stddev_bps};
}

std::vector<LinkView> links_of(const Topology& topology) {
  std::vector<LinkView> views;
  for (std::uint32_t id = 0; id < topology.link_count(); ++id) {
    const TopologyLink& link = topology.link(LinkId(id));
    views.push_back({topology.node(link.from).name, topology.node(link.to).name, link.properties.capacity_bps,
                     to_seconds(link.properties.latency), link.properties.price_usd_per_gb,
                     link.properties.capacity_stddev_bps});
  }
  return views;
}

struct ReachabilityView {
  std::vector<std::vector<std::string>> groups;
  std::optional<std::vector<std::vector<std::size_t>>> unreachable;
};

ReachabilityView reachability(const Topology& topology) {
  Reachability found = reachability_of(topology);
  ReachabilityView view{{}, std::move(found.unreachable)};
  for (const std::vector<NodeId>& group : found.groups) view.groups.push_back(names_of(topology, group));
  return view;
}

using PathSearch = std::vector<Path> (*)(const Topology&, NodeId, NodeId, std::size_t);

std::vector<std::vector<std::string>> find_paths(const Topology& topology, const std::string& source,
                                                 const std::string& target, std::size_t k,
                                                 PathSearch search) {
  const NodeId from = node_named(topology, source);
  const NodeId to = node_named(topology, target);
  const auto paths = unlocked([&] { return search(topology, from, to, k); });
  std::vector<std::vector<std::string>> named;
  for (const Path& path : paths) named.push_back(names_of(topology, path.nodes));
  return named;
}

void set_capacity(Topology& topology, const std::string& from, const std::string& to, double capacity_bps) {
  check(topology.set_capacity(link_named(topology, from, to), capacity_bps));
}

std::vector<std::string> reachable_from(const Topology& topology, const std::string& name) {
  const std::vector<bool> reached = topology.reachable_from(node_named(topology, name));
  std::vector<std::string> names;
  for (std::uint32_t id = 0; id < reached.size(); ++id) {
    if (reached[id]) names.push_back(topology.node(NodeId(id)).name);
  }
  return names;
}

void bind_views(py::module_& module) {
  py::class_<TopologyNode>(module, "NodeView", "A node of a topology.")
      .def_readonly("name", &TopologyNode::name)
      .def_readonly("egress_bps", &TopologyNode::egress_bps)
      .def_readonly("ingress_bps", &TopologyNode::ingress_bps);
  py::class_<LinkView>(module, "LinkView", "A directed link of a topology; latency in seconds.")
      .def_readonly("from_node", &LinkView::from_node)
      .def_readonly("to_node", &LinkView::to_node)
      .def_readonly("capacity_bps", &LinkView::capacity_bps)
      .def_readonly("latency", &LinkView::latency)
      .def_readonly("price_usd_per_gb", &LinkView::price_usd_per_gb)
      .def_readonly("capacity_stddev_bps", &LinkView::capacity_stddev_bps);
  py::class_<ReachabilityView>(module, "Reachability", "Groups of nodes that all reach one another.")
      .def_readonly("groups", &ReachabilityView::groups, "The largest first.")
      .def_readonly("unreachable", &ReachabilityView::unreachable,
                    "By group, the groups that no path leads to; None where there are too many groups.");
}

void bind_queries(py::class_<Topology>& topology) {
  topology.def_property_readonly("node_count", &Topology::node_count)
      .def_property_readonly("link_count", &Topology::link_count)
      .def_property_readonly("nodes",
                             [](const Topology& self) {
                               std::vector<TopologyNode> nodes;
                               for (std::uint32_t id = 0; id < self.node_count(); ++id)
                                 nodes.push_back(self.node(NodeId(id)));
                               return nodes;
                             })
      .def_property_readonly("links", &links_of)
      .def(
          "k_shortest_paths",
          [](const Topology& self, const std::string& source, const std::string& target, Size<"k"> k) {
            return find_paths(self, source, target, k, &k_shortest_paths);
          },
          py::arg("source"), py::arg("target"), py::arg("k"))
      .def(
          "k_widest_paths",
          [](const Topology& self, const std::string& source, const std::string& target, Size<"k"> k) {
            return find_paths(self, source, target, k, &k_widest_paths);
          },
          py::arg("source"), py::arg("target"), py::arg("k"))
      .def("reachable_from", &reachable_from, py::arg("name"))
      .def("reachability", &reachability, "Which nodes can reach which.");
}

}  // namespace

NodeId node_named(const Topology& topology, const std::string& name) {
  const auto node = topology.find_node(name);
  if (!node) raise(not_found("no node \"" + name + "\" in the topology"));
  return *node;
}

LinkId link_named(const Topology& topology, const std::string& from, const std::string& to) {
  const auto link = topology.find_link(node_named(topology, from), node_named(topology, to));
  if (!link) raise(not_found("no link from \"" + from + "\" to \"" + to + "\""));
  return *link;
}

TopologyReadOptions read_options(const std::optional<std::string>& units) {
  if (!units) return {};
  auto options = topology_read_options(*units);
  if (!options.is_ok()) raise(options.status().with_context("units"));
  return *options;
}

std::vector<std::string> names_of(const Topology& topology, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId node : nodes) names.push_back(topology.node(node).name);
  return names;
}

void bind_topology(py::module_& module) {
  bind_views(module);
  py::class_<Topology> topology(module, "Topology",
                                "The overlay: nodes and directed links. See square/topology.h.");
  topology.def(py::init<>())
      .def_static(
          "read",
          [](const std::filesystem::path& path, const std::optional<std::string>& units) {
            const TopologyReadOptions options = read_options(units);
            return check(unlocked([&] { return read_topology(path, options); }));
          },
          py::arg("path"), py::arg("units") = py::none(),
          "Reads GML, GraphML, CSV or TOML, by the file's extension. units, such as \"Mbit/s\", is the unit "
          "of "
          "numbers that have none; \"none\": they are no speeds.")
      .def_static(
          "full_mesh",
          [](const std::vector<std::string>& names, std::optional<double> capacity_bps, double latency,
             double price_usd_per_gb, double capacity_stddev_bps) {
            return check(
                full_mesh(names, properties(capacity_bps, latency, price_usd_per_gb, capacity_stddev_bps)));
          },
          py::arg("names"), py::arg("capacity_bps") = py::none(), py::arg("latency") = 0.0,
          py::arg("price_usd_per_gb") = 0.0, py::arg("capacity_stddev_bps") = 0.0)
      .def(
          "add_node",
          [](Topology& self, std::string name, std::optional<double> egress, std::optional<double> ingress) {
            check(self.add_node({std::move(name), limit_or_unlimited(egress), limit_or_unlimited(ingress)}));
          },
          py::arg("name"), py::arg("egress_bps") = py::none(), py::arg("ingress_bps") = py::none())
      .def(
          "add_link",
          [](Topology& self, const std::string& from, const std::string& to,
             std::optional<double> capacity_bps, double latency, double price_usd_per_gb,
             double capacity_stddev_bps) {
            check(self.add_link(from, to,
                                properties(capacity_bps, latency, price_usd_per_gb, capacity_stddev_bps)));
          },
          py::arg("from_node"), py::arg("to_node"), py::arg("capacity_bps") = py::none(),
          py::arg("latency") = 0.0, py::arg("price_usd_per_gb") = 0.0, py::arg("capacity_stddev_bps") = 0.0)
      .def(
          "draw_capacities",
          [](Topology& self, double mean_bps, double stddev_bps, Size<"seed"> seed, bool only_unlimited) {
            check(draw_capacities(self, mean_bps, stddev_bps, seed, only_unlimited));
          },
          py::arg("mean_bps"), py::arg("stddev_bps"), py::arg("seed"), py::arg("only_unlimited") = true)
      .def("set_capacity", &set_capacity, py::arg("from_node"), py::arg("to_node"), py::arg("capacity_bps"))
      .def(
          "set_limits",
          [](Topology& self, const std::string& node, std::optional<double> egress,
             std::optional<double> ingress) {
            check(self.set_limits(node_named(self, node), limit_or_unlimited(egress),
                                  limit_or_unlimited(ingress)));
          },
          py::arg("node"), py::arg("egress_bps") = py::none(), py::arg("ingress_bps") = py::none())
      .def("copy", [](const Topology& self) { return self; });
  bind_queries(topology);
}

}  // namespace square::python
