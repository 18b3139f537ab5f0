// One unit of flow from a root to a node, for small graphs whose arcs mostly carry nothing.
#pragma once

#include <utility>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// Shortest augmenting paths (Edmonds and Karp, 1972), stopped at one unit. Amounts below
// 1e-12 are nothing. Thread-compatible.
class UnitFlow {
 public:
  // `graph` must outlive this.
  UnitFlow(const Digraph& graph, int root) : graph_(graph), root_(root) {}

  // By arc, at least zero.
  void set_capacity(const std::vector<double>& capacity);

  // Sends what is possible, one unit at most, from the root to `sink`. Returns how much.
  double run(int sink);

  // After run(), and where it sent less than one unit: the nodes of a smallest cut, once
  // those that can still reach the sink and once those that the root cannot reach.
  [[nodiscard]] std::vector<int> near_sink() const;
  [[nodiscard]] std::vector<int> beyond_root() const;

  // After run(): simple paths from the root and what each carries. Takes the flow away.
  std::vector<std::pair<std::vector<int>, double>> take_paths();

 private:
  struct Half {
    int to = 0;
    int twin = 0;  // position of the other direction
    int arc = 0;
    double left = 0.0;
  };

  bool search();

  const Digraph& graph_;
  int root_;
  int sink_ = 0;
  double amount_ = 0.0;
  std::vector<double> capacity_;
  std::vector<int> begin_;    // by node: its halves
  std::vector<Half> halves_;  // of arcs with capacity, in both directions
  std::vector<int> forward_;  // positions of those along their arcs
  std::vector<int> arrival_;  // by node: the half that the search came by
  std::vector<int> queue_;
};

}  // namespace square::planning
