// The cheapest directed Steiner tree, again and again for changing costs.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "planning/packing/digraph.h"
#include "planning/packing/steiner_reduction.h"

namespace square::planning {

// Dreyfus and Wagner's table (Networks 1, 1971) for one root and one set of terminals,
// O(3^k n + 2^k n^2) or O(3^k n + 2^k m log n), whichever is less. What costs nothing is
// contracted first, so costs that are mostly zero are much faster. Holds its memory from
// call to call, 2^k n numbers. Thread-compatible.
class SteinerTable {
 public:
  // More terminals have no room.
  static constexpr std::size_t kMaxTerminals = 14;

  // `graph` must outlive the table.
  SteinerTable(const Digraph& graph, int root, const std::vector<int>& terminals);

  // About how many additions one call of cheapest() takes at most; infinite where there are
  // more than kMaxTerminals.
  [[nodiscard]] double work() const { return work_; }
  // The same of a table that is not made.
  static double work(const Digraph& graph, std::size_t terminals);

  // The arcs of a cheapest tree: each after the one that feeds it, no leaf but terminals.
  // Nothing if some terminal cannot be reached. Costs by arc, at least zero and finite.
  // work() must be finite.
  std::optional<std::vector<int>> cheapest(const std::vector<double>& cost);

 private:
  using Arc = SteinerReduction::Arc;

  void fill();
  // The cheapest pair of trees from each node that share out `set`, into joined_.
  void join(unsigned set);
  void spread_dense(double* row);
  void spread_sparse(double* row);
  // Cheapest ways from `start`: joined_ is left alone.
  void search_from(int start);
  // Adds the arcs of the cheapest tree from `node` over `set`.
  void trace(unsigned set, int node, std::vector<int>& arcs);
  void trace_way(int start, int end, std::vector<int>& arcs) const;
  void index_arcs();

  [[nodiscard]] double* row(unsigned set) { return table_.data() + set * reduction_.stride(); }

  SteinerReduction reduction_;
  double work_;
  std::vector<double> table_;  // [set][node]
  std::vector<double> joined_;
  std::vector<const double*> halves_;
  std::vector<int> out_begin_;  // by node: where its arcs start in the reduction's
  std::vector<int> in_begin_;
  std::vector<Arc> in_arcs_;  // sorted by `to`; only if sparse
  std::vector<std::pair<double, int>> heap_;
  std::vector<double> distance_;
  std::vector<int> arrival_;  // position of the last arc, -1 at the start
};

}  // namespace square::planning
