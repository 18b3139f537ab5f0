// Loopless paths by Yen's method, with Lawler's split of what is left after each path.
#include "square/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "base/check.h"
#include "base/spending.h"
#include "topology/path_search.h"

namespace square {
namespace {

// The best path of one class: all simple paths that begin with the first `root_size` nodes of
// `path` and do not go on over a link of `banned`. Classes never overlap.
struct Candidate {
  Path path;
  std::size_t root_size = 1;
  std::vector<LinkId> banned;
};

// True where `a` comes after `b`: std::priority_queue keeps the largest in front.
class ComesAfter {
 public:
  ComesAfter(const Topology& topology, PathOrder order) : topology_(&topology), order_(order) {}

  bool operator()(const Candidate& a, const Candidate& b) const { return comes_before(b.path, a.path); }

 private:
  [[nodiscard]] bool comes_before(const Path& a, const Path& b) const {
    const bool same_hops = a.links.size() == b.links.size();
    const bool same_width = a.width_bps == b.width_bps;
    if (order_ == PathOrder::kHopsFirst && !same_hops) return a.links.size() < b.links.size();
    if (!same_width) return a.width_bps > b.width_bps;
    if (!same_hops) return a.links.size() < b.links.size();
    return std::ranges::lexicographical_compare(a.nodes, b.nodes, [this](NodeId x, NodeId y) {
      return topology_->node(x).name < topology_->node(y).name;
    });
  }

  const Topology* topology_;
  PathOrder order_;
};

std::vector<Path> first_paths(const Topology& topology, NodeId source, NodeId target, std::size_t k,
                              PathOrder order) {
  SQUARE_CHECK(source.index() < topology.node_count() && target.index() < topology.node_count(),
               "paths between nodes of another topology");
  std::vector<Path> paths;
  if (source == target || k == 0) return paths;
  PathSearch search(topology, target, order);
  std::priority_queue<Candidate, std::vector<Candidate>, ComesAfter> candidates(ComesAfter(topology, order));
  const auto consider = [&](std::span<const NodeId> root_nodes, std::span<const LinkId> root_links,
                            std::vector<LinkId> banned) {
    if (auto path = search.best_completion(root_nodes, root_links, banned)) {
      candidates.push({std::move(*path), root_nodes.size(), std::move(banned)});
    }
  };
  consider(std::span(&source, 1), {}, {});
  while (!candidates.empty()) {
    Candidate best = candidates.top();
    candidates.pop();
    paths.push_back(best.path);
    if (paths.size() == k) break;
    const std::span<const NodeId> nodes(best.path.nodes);
    const std::span<const LinkId> links(best.path.links);
    for (std::size_t root_size = best.root_size; root_size < nodes.size(); ++root_size) {
      look_at_budget();
      std::vector<LinkId> banned;
      if (root_size == best.root_size) banned = std::move(best.banned);
      banned.push_back(links[root_size - 1]);
      consider(nodes.first(root_size), links.first(root_size - 1), std::move(banned));
    }
  }
  return paths;
}

}  // namespace

std::vector<Path> k_shortest_paths(const Topology& topology, NodeId source, NodeId target, std::size_t k) {
  return first_paths(topology, source, target, k, PathOrder::kHopsFirst);
}

std::vector<Path> k_widest_paths(const Topology& topology, NodeId source, NodeId target, std::size_t k) {
  return first_paths(topology, source, target, k, PathOrder::kWidthFirst);
}

Result<std::vector<Path>> all_simple_paths(const Topology& topology, NodeId source, NodeId target,
                                           std::size_t limit) {
  const std::size_t one_too_many = std::max(limit, limit + 1);
  auto paths = first_paths(topology, source, target, one_too_many, PathOrder::kHopsFirst);
  if (paths.size() <= limit) return paths;
  return resource_exhausted(
      fmt::format("more than {} simple paths from \"{}\" to \"{}\": use the k shortest or k widest instead",
                  limit, topology.node(source).name, topology.node(target).name));
}

}  // namespace square
