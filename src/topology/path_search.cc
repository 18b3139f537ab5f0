#include "topology/path_search.h"

#include <algorithm>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/reverse_graph.hpp>
#include <boost/property_map/function_property_map.hpp>

#include "base/check.h"
#include "topology/graph.h"

namespace square {

// The edges of the graph that a search may use.
struct Admits {
  const PathSearch* search = nullptr;
  const AdjacencyList* graph = nullptr;
  bool operator()(const Edge& edge) const { return search->admits(LinkId((*graph)[edge].link)); }
};

namespace {

using Usable = boost::filtered_graph<AdjacencyList, Admits>;
using Backwards = boost::reverse_graph<Usable>;

// Measures hops and, over the ways with the fewest hops, widths. A vertex is examined only when
// all that lie nearer to the target are done, so its width is final by then.
template <typename EdgeCapacity>
class HopVisitor : public boost::default_bfs_visitor {
 public:
  HopVisitor(std::vector<std::uint32_t>& hops, std::vector<double>& width, EdgeCapacity capacity)
      : hops_(&hops), width_(&width), capacity_(capacity) {}

  template <typename EdgeType, typename GraphType>
  void examine_edge(EdgeType edge, const GraphType& graph) {
    const std::size_t near = boost::source(edge, graph);
    const std::size_t far = boost::target(edge, graph);
    const std::uint32_t hops = (*hops_)[near] + 1;
    if ((*hops_)[far] < hops) return;
    (*hops_)[far] = hops;
    (*width_)[far] = std::max((*width_)[far], std::min((*width_)[near], capacity_(edge)));
  }

 private:
  std::vector<std::uint32_t>* hops_;
  std::vector<double>* width_;
  EdgeCapacity capacity_;
};

}  // namespace

PathSearch::PathSearch(const Topology& topology, NodeId target, PathOrder order)
    : topology_(topology), target_(target), order_(order), taken_(topology.node_count()) {}

bool PathSearch::admits(LinkId link) const {
  const TopologyLink& ends = topology_.graph().links[link.index()];
  if (taken_[ends.from.index()] != 0 || taken_[ends.to.index()] != 0) return false;
  if (ends.properties.capacity_bps < min_bps_) return false;
  // Nodes no nearer to the target than the spur do not help it.
  if (!hops_.empty() && hops_[ends.to.index()] >= hops_[spur_.index()] &&
      hops_[spur_.index()] != kUnreached) {
    return false;
  }
  return std::ranges::find(banned_, link) == banned_.end();
}

double PathSearch::widest_from(NodeId spur) {
  const auto& graph = topology_.graph();
  hops_.clear();
  min_bps_ = 0;
  const Usable usable(graph.adjacency, Admits{this, &graph.adjacency});
  const auto capacity = [&graph](const Edge& edge) { return graph.capacity_bps(edge); };
  width_.assign(topology_.node_count(), 0.0);
  const auto index = boost::get(boost::vertex_index, graph.adjacency);
  std::vector<Vertex> tree(topology_.node_count());
  boost::dijkstra_shortest_paths(usable, spur.index(),
                                 boost::weight_map(boost::make_function_property_map<Edge, double>(capacity))
                                     .distance_map(boost::make_iterator_property_map(width_.begin(), index))
                                     .predecessor_map(boost::make_iterator_property_map(tree.begin(), index))
                                     .distance_compare(std::greater<>())
                                     .distance_combine([](double a, double b) { return std::min(a, b); })
                                     .distance_zero(kUnlimited)
                                     .distance_inf(0.0));
  return width_[target_.index()];
}

void PathSearch::measure_hops(NodeId spur, double min_bps) {
  const auto& graph = topology_.graph();
  spur_ = spur;
  min_bps_ = min_bps;
  hops_.assign(topology_.node_count(), kUnreached);
  width_.assign(topology_.node_count(), 0.0);
  hops_[target_.index()] = 0;
  width_[target_.index()] = kUnlimited;
  const Usable usable(graph.adjacency, Admits{this, &graph.adjacency});
  const Backwards backwards(usable);
  const auto capacity = [&graph](const auto& edge) { return graph.capacity_bps(edge.underlying_descx); };
  boost::breadth_first_search(backwards, target_.index(),
                              boost::visitor(HopVisitor(hops_, width_, capacity)));
}

void PathSearch::append_way(Path& path, NodeId spur, double min_bps) const {
  for (NodeId node = spur; node != target_;) {
    const TopologyLink* best = nullptr;
    LinkId best_link;
    for (const LinkId link : topology_.out_links(node)) {
      const TopologyLink& candidate = topology_.link(link);
      const std::size_t to = candidate.to.index();
      if (hops_[to] == kUnreached || hops_[to] + 1 != hops_[node.index()] || width_[to] < min_bps ||
          candidate.properties.capacity_bps < min_bps || std::ranges::find(banned_, link) != banned_.end()) {
        continue;
      }
      if (best == nullptr || topology_.node(candidate.to).name < topology_.node(best->to).name) {
        best = &candidate;
        best_link = link;
      }
    }
    SQUARE_CHECK(best != nullptr, "a measured way leads nowhere");
    path.width_bps = std::min(path.width_bps, best->properties.capacity_bps);
    path.links.push_back(best_link);
    path.nodes.push_back(best->to);
    node = best->to;
  }
}

std::optional<Path> PathSearch::best_completion(std::span<const NodeId> root_nodes,
                                                std::span<const LinkId> root_links,
                                                std::span<const LinkId> banned) {
  const NodeId spur = root_nodes.back();
  Path path{{root_nodes.begin(), root_nodes.end()}, {root_links.begin(), root_links.end()}, kUnlimited};
  for (const LinkId link : root_links) {
    path.width_bps = std::min(path.width_bps, topology_.link(link).properties.capacity_bps);
  }
  banned_ = banned;
  for (const NodeId node : root_nodes.first(root_nodes.size() - 1)) taken_[node.index()] = 1;
  // A way on that is wider than its root is worth no more than one as wide as it.
  double min_bps = 0;
  bool reached = true;
  if (order_ == PathOrder::kWidthFirst) {
    min_bps = std::min(path.width_bps, widest_from(spur));
    reached = min_bps > 0;
  }
  if (reached) {
    measure_hops(spur, min_bps);
    reached = hops_[spur.index()] != kUnreached;
  }
  if (reached) append_way(path, spur, std::min(path.width_bps, width_[spur.index()]));
  for (const NodeId node : root_nodes) taken_[node.index()] = 0;
  banned_ = {};
  if (!reached) return std::nullopt;
  return path;
}

}  // namespace square
