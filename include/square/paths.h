// Feasible paths: the k shortest and the k widest simple paths of a topology.
#pragma once

#include <vector>

#include "square/topology.h"

namespace square {

// A simple path. `links` has one entry less than `nodes`.
struct Path {
  std::vector<NodeId> nodes;
  std::vector<LinkId> links;
  // The smallest capacity on the path, bits per second.
  double width_bps = kUnlimited;

  friend bool operator==(const Path&, const Path&) = default;
};

// The first k simple paths from `source` to `target` by hops, then width (wider
// first), then the names of the nodes in order. Fewer if fewer exist; none if source
// equals target. The order is total, so the answer is unique. Yen's algorithm
// (Management Science 17(11), 1971), O(k n m). Preconditions: nodes of the topology.
std::vector<Path> k_shortest_paths(const Topology& topology, NodeId source, NodeId target, std::size_t k);

// The same by width (wider first), then hops, then names.
std::vector<Path> k_widest_paths(const Topology& topology, NodeId source, NodeId target, std::size_t k);

// Every simple path in the order of k_shortest_paths. Errors: RESOURCE_EXHAUSTED if
// there are more than `limit`.
Result<std::vector<Path>> all_simple_paths(const Topology& topology, NodeId source, NodeId target,
                                           std::size_t limit);

}  // namespace square
