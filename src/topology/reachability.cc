#include "square/reachability.h"

#include <algorithm>
#include <bitset>
#include <boost/graph/strong_components.hpp>
#include <cstdint>

#include "topology/graph.h"

namespace square {
namespace {

using Groups = std::vector<std::vector<NodeId>>;

// The number of each node's component; those that a component leads to have smaller ones.
// Tarjan, SIAM Journal on Computing 1(2), 1972.
std::size_t number_components(const Topology& topology, std::vector<std::size_t>& component) {
  const AdjacencyList& graph = topology.graph().adjacency;
  component.resize(topology.node_count());
  return boost::strong_components(
      graph, boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, graph)));
}

using Bits = std::bitset<kMaxComparedGroups>;

// By component, the components that it reaches, itself included.
std::vector<Bits> closure(const Topology& topology, const Groups& components,
                          const std::vector<std::size_t>& component) {
  std::vector<Bits> reached(components.size());
  for (std::size_t from = 0; from < components.size(); ++from) {
    reached[from].set(from);
    for (const NodeId node : components[from]) {
      for (const LinkId link : topology.out_links(node)) {
        const std::size_t to = component[topology.link(link).to.index()];
        if (!reached[from].test(to)) reached[from] |= reached[to];
      }
    }
  }
  return reached;
}

}  // namespace

Reachability reachability_of(const Topology& topology) {
  std::vector<std::size_t> component;
  Groups components(number_components(topology, component));
  for (std::size_t v = 0; v < component.size(); ++v) {
    components[component[v]].push_back(NodeId(static_cast<std::uint32_t>(v)));
  }
  std::vector<std::size_t> order(components.size());
  for (std::size_t c = 0; c < order.size(); ++c) order[c] = c;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (components[a].size() != components[b].size()) return components[a].size() > components[b].size();
    return components[a].front() < components[b].front();
  });

  Reachability result;
  if (components.size() <= kMaxComparedGroups) {
    const std::vector<Bits> reached = closure(topology, components, component);
    result.unreachable.emplace(components.size());
    for (std::size_t from = 0; from < order.size(); ++from) {
      for (std::size_t to = 0; to < order.size(); ++to) {
        if (!reached[order[from]][order[to]]) (*result.unreachable)[from].push_back(to);
      }
    }
  }
  for (const std::size_t c : order) result.groups.push_back(std::move(components[c]));
  return result;
}

}  // namespace square
