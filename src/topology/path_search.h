// One step of Yen's method: the best way on from a given beginning of a path.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "square/paths.h"

namespace square {

enum class PathOrder {
  kHopsFirst,   // hops, then width (wider first), then names
  kWidthFirst,  // width, then hops, then names
};

// Searches for paths to one target; keeps its memory between searches. Not thread-safe.
class PathSearch {
 public:
  PathSearch(const Topology& topology, NodeId target, PathOrder order);

  // The first path in the order that begins with `root_nodes` (joined by `root_links`), visits no
  // node twice and does not leave the last of them over a link of `banned`; none if none does.
  std::optional<Path> best_completion(std::span<const NodeId> root_nodes, std::span<const LinkId> root_links,
                                      std::span<const LinkId> banned);

 private:
  friend struct Admits;
  static constexpr std::uint32_t kUnreached = std::numeric_limits<std::uint32_t>::max();

  // Whether a search may use a link, given the nodes and links that are taken.
  [[nodiscard]] bool admits(LinkId link) const;
  // The largest width with which `spur` reaches the target; 0 if it does not.
  double widest_from(NodeId spur);
  // Fills hops_ and width_ for nodes that reach the target over links of at least `min_bps`, as far as
  // `spur` needs.
  void measure_hops(NodeId spur, double min_bps);
  // Appends the way from `spur` in the fewest hops with at least `min_bps`, smallest names first.
  void append_way(Path& path, NodeId spur, double min_bps) const;

  const Topology& topology_;
  const NodeId target_;
  const PathOrder order_;
  std::vector<char> taken_;  // nodes of the root before the spur, by NodeId
  std::span<const LinkId> banned_;
  double min_bps_ = 0;
  NodeId spur_;
  // By NodeId: hops to the target, and the largest width of a way with that many hops.
  std::vector<std::uint32_t> hops_;
  std::vector<double> width_;
};

}  // namespace square
