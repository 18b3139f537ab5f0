// What Topology holds: a Boost.Graph for the algorithms and the attributes beside it.
#pragma once

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "square/topology.h"

namespace square {

// The number of the link that an edge stands for.
struct EdgeLink {
  std::uint32_t link = 0;
};

// Vertices are NodeIds: both are numbered from 0 without gaps.
using AdjacencyList =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, boost::no_property, EdgeLink>;
using Vertex = boost::graph_traits<AdjacencyList>::vertex_descriptor;
using Edge = boost::graph_traits<AdjacencyList>::edge_descriptor;

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
};

struct Topology::Graph {
  AdjacencyList adjacency;
  std::vector<TopologyNode> nodes;
  std::vector<TopologyLink> links;
  // Links of a node in the order in which they were added.
  std::vector<std::vector<LinkId>> out_links;
  std::vector<std::vector<LinkId>> in_links;
  std::unordered_map<std::string, NodeId, NameHash, std::equal_to<>> node_by_name;
  std::unordered_map<std::uint64_t, LinkId> link_by_ends;

  static std::uint64_t ends_key(NodeId from, NodeId to) {
    return (static_cast<std::uint64_t>(from.value()) << 32U) | to.value();
  }
  [[nodiscard]] double capacity_bps(const Edge& edge) const {
    return links[adjacency[edge].link].properties.capacity_bps;
  }
};

}  // namespace square
