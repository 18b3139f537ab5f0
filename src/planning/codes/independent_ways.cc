#include "planning/codes/independent_ways.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <set>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

constexpr int kNoArc = -1;  // nor a side

// A flow in which each node but the ends is passed once at most: it has a side where arcs come in and one
// where they leave.
class NodeFlow {
 public:
  NodeFlow(const Digraph& graph, int root, int terminal, const std::vector<double>& cost)
      : graph_(graph), cost_(cost), root_(root), terminal_(terminal) {
    before_.assign(at(graph.node_count()), kNoArc);
  }

  std::vector<std::vector<int>> run(int wanted) {
    while (static_cast<int>(ends_.size()) < wanted && augment()) continue;
    std::vector<std::vector<int>> ways;
    for (const int end : ends_) {
      std::vector<int> way{end};
      while (tail(way.back()) != root_) way.push_back(before_[at(tail(way.back()))]);
      std::ranges::reverse(way);
      ways.push_back(std::move(way));
    }
    return ways;
  }

 private:
  static std::size_t at(int number) { return static_cast<std::size_t>(number); }
  static int coming(int node) { return 2 * node; }
  static int leaving(int node) { return 2 * node + 1; }
  [[nodiscard]] int tail(int arc) const { return graph_.arcs[at(arc)].from; }
  [[nodiscard]] int head(int arc) const { return graph_.arcs[at(arc)].to; }
  [[nodiscard]] bool is_used(int arc) const {
    return head(arc) == terminal_ ? ends_.contains(arc) : before_[at(head(arc))] == arc;
  }

  // One more way, along a shortest path of what is left (Bellman and Ford, in a queue).
  bool augment() {
    const std::size_t sides = 2 * at(graph_.node_count());
    distance_.assign(sides, std::numeric_limits<double>::infinity());
    came_by_.assign(sides, kNoArc);
    came_from_.assign(sides, kNoArc);
    waits_.assign(sides, false);
    last_ = kNoArc;
    last_distance_ = std::numeric_limits<double>::infinity();
    relax(leaving(root_), kNoArc, kNoArc, 0.0);
    while (!queue_.empty()) {
      const int side = queue_.front();
      queue_.pop_front();
      waits_[at(side)] = false;
      side % 2 == 0 ? pass(side / 2) : leave(side / 2);
    }
    if (last_ == kNoArc) return false;
    apply();
    return true;
  }

  void relax(int side, int from, int arc, double distance) {
    if (!(distance < distance_[at(side)] - kRounding * std::abs(distance))) return;
    distance_[at(side)] = distance;
    came_from_[at(side)] = from;
    came_by_[at(side)] = arc;
    if (!waits_[at(side)]) queue_.push_back(side);
    waits_[at(side)] = true;
  }

  // Through a free node, or back along the arc by which a way comes to it.
  void pass(int node) {
    const double here = distance_[at(coming(node))];
    const int arc = before_[at(node)];
    if (arc == kNoArc) return relax(leaving(node), coming(node), kNoArc, here);
    if (tail(arc) != root_) relax(leaving(tail(arc)), coming(node), arc, here - cost_[at(arc)]);
  }

  void leave(int node) {
    const double here = distance_[at(leaving(node))];
    if (node != root_ && before_[at(node)] != kNoArc) relax(coming(node), leaving(node), kNoArc, here);
    for (const int arc : graph_.out[at(node)]) {
      if (head(arc) == root_ || is_used(arc)) continue;
      if (head(arc) != terminal_) {
        relax(coming(head(arc)), leaving(node), arc, here + cost_[at(arc)]);
      } else if (here + cost_[at(arc)] < last_distance_) {
        last_ = arc;
        last_distance_ = here + cost_[at(arc)];
      }
    }
  }

  // What is taken back first: the new arcs may lead to the same nodes.
  void apply() {
    std::vector<int> added;
    for (int side = leaving(tail(last_)); side != kNoArc; side = came_from_[at(side)]) {
      const int arc = came_by_[at(side)];
      if (arc == kNoArc) continue;
      if (side % 2 == 0) {
        added.push_back(arc);
      } else if (before_[at(head(arc))] == arc) {
        before_[at(head(arc))] = kNoArc;
      }
    }
    for (const int arc : added) before_[at(head(arc))] = arc;
    ends_.insert(last_);
  }

  // Sums of costs in another order are no way that is shorter.
  static constexpr double kRounding = 1e-12;

  const Digraph& graph_;
  const std::vector<double>& cost_;
  const int root_;
  const int terminal_;
  std::vector<int> before_;  // by node: the arc by which its way comes
  std::set<int> ends_;       // arcs into the terminal
  std::vector<double> distance_;
  std::vector<int> came_from_;  // by side: the side before it
  std::vector<int> came_by_;    // and the arc in between, if there is one
  std::vector<bool> waits_;
  std::deque<int> queue_;
  int last_ = kNoArc;
  double last_distance_ = 0.0;
};

}  // namespace

std::vector<std::vector<int>> independent_ways(const Digraph& graph, int root, int terminal, int wanted,
                                               const std::vector<double>& cost) {
  look_at_budget();
  return NodeFlow(graph, root, terminal, cost).run(wanted);
}

}  // namespace square::planning
