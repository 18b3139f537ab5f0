// Maximum flow from supplies at many nodes to one sink, and the minimum cut behind it.
#pragma once

#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// Push-relabel without its second half: only the amount and the cut matter, so what cannot reach the sink
// stays where it is (Goldberg and Tarjan 1988). Every round labels all nodes anew by a search from the sink,
// then pushes once from the farthest node to the nearest: O(m) a round, a handful of rounds in practice, n^2
// at most. Amounts are doubles. A push empties a node or fills an arc exactly, so neither ends in endless
// small change. Not thread-safe.
class MaxFlow {
 public:
  // `capacity` by arc, at least zero.
  MaxFlow(const Digraph& graph, const std::vector<double>& capacity);

  // A closed node takes no part, as if it and its arcs were gone.
  void close(int node) { unlabelled_[node] = kClosed; }
  void open_all();

  // The most that `supply` (by node) can send to `sink`, with what the sink has itself. Stops early, with
  // less than the most, once that is more than `enough`. The sink must not be closed.
  double run(const std::vector<double>& supply, int sink, double enough);

  // After a run that did not stop early: the nodes that could still pass more on to the sink. No supply is
  // left there and every arc into them is full: the smallest sink side of a minimum cut.
  [[nodiscard]] const std::vector<int>& sink_side() const { return order_; }

 private:
  static constexpr int kUnseen = -1;
  static constexpr int kClosed = -2;

  struct Half {
    int to = 0;
    int twin = 0;
  };

  void label(int sink);
  bool push_down();

  std::vector<int> first_;  // by node: its half arcs are first_[v] to first_[v + 1] - 1
  std::vector<Half> halves_;
  std::vector<double> capacity_;  // by half arc, zero for the backward ones
  std::vector<double> residual_;
  std::vector<double> excess_;   // by node
  std::vector<int> label_;       // by node: arcs to the sink
  std::vector<int> unlabelled_;  // by node: kUnseen or kClosed
  std::vector<int> order_;       // nodes with a label, nearest first
};

}  // namespace square::planning
