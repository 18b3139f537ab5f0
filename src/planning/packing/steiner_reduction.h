// A directed Steiner tree problem made smaller before it is solved: what costs nothing is
// contracted, and arcs that a cheaper way replaces are left out.
#pragma once

#include <cstddef>
#include <vector>

#include "planning/packing/digraph.h"

namespace square::planning {

// About how many additions it takes to spread 2^terminals rows of n numbers over the graph:
// with all distances, computing them included, or with one search a row.
struct SteinerWork {
  double dense = 0.0;
  double sparse = 0.0;
};
SteinerWork steiner_work(int nodes, std::size_t arcs, std::size_t terminals);

// Holds its memory from one cost vector to the next. Thread-compatible.
class SteinerReduction {
 public:
  struct Arc {
    int from = 0;
    int to = 0;
    double cost = 0.0;
    int original = 0;
  };

  // `graph` must outlive the reduction. Terminals may repeat and may be the root.
  SteinerReduction(const Digraph& graph, int root, const std::vector<int>& terminals);

  // Costs by arc, at least zero. The nodes that the root reaches for nothing become one
  // with it, and so do nodes that reach each other for nothing. A terminal that another one
  // reaches for nothing is left out. O(n^3 + m) if is_dense(), else O(m log m).
  void update(const std::vector<double>& cost);

  // The reduced problem.
  [[nodiscard]] int node_count() const { return nodes_; }
  [[nodiscard]] int root() const { return 0; }
  [[nodiscard]] const std::vector<int>& terminals() const { return reduced_terminals_; }
  [[nodiscard]] const std::vector<Arc>& arcs() const { return arcs_; }  // sorted by `from`

  // Are distances known, and arcs that are longer than a way left out? Where that is less
  // steiner_work().
  [[nodiscard]] bool is_dense() const { return is_dense_; }
  // The distance to `to` from every node, then infinities up to stride().
  [[nodiscard]] const double* distances_to(int to) const { return distance_.data() + to * stride_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }

  // Back to the graph. A tree from arcs of the graph that lead to every terminal of the
  // reduced problem, together with arcs that cost nothing: each arc follows the one that
  // feeds it, and no leaf but terminals.
  [[nodiscard]] std::vector<int> expand(const std::vector<int>& chosen) const;
  // The nodes of the graph behind nodes of the reduced one, sorted.
  [[nodiscard]] std::vector<int> expand_nodes(const std::vector<int>& reduced) const;
  // A way of no cost between nodes of the graph, with the fewest arcs. There must be one.
  [[nodiscard]] std::vector<int> free_way(int from, int to) const;
  // From where a terminal of the graph is reached for nothing: the root, another terminal,
  // or itself; and the terminal of the reduced problem that this is, -1 for the root.
  struct Leader {
    int node = 0;
    int reduced = -1;
  };
  [[nodiscard]] Leader leader(int terminal) const { return leader_[terminal]; }

 private:
  void collect_free_arcs(const std::vector<double>& cost);
  void contract();
  void contract_cycles();
  void choose_terminals();
  void fill_dense(const std::vector<double>& cost);
  void fill_sparse(const std::vector<double>& cost);
  void close_distances();
  // What `start` reaches for nothing: queue_, and in reached_by_ the last arc of each way.
  void flood(int start) const;

  const Digraph& graph_;
  int root_;
  std::vector<int> terminals_;  // each once, without the root

  std::vector<int> free_begin_;  // by node: where its arcs of no cost start in free_arcs_
  std::vector<int> free_arcs_;
  std::vector<int> node_of_;  // by node of the graph: its node of the reduced problem
  int nodes_ = 0;
  std::vector<Leader> leader_;  // by node of the graph
  std::vector<int> reduced_terminals_;
  std::vector<Arc> arcs_;
  bool is_dense_ = false;
  std::size_t stride_ = 0;
  std::vector<double> distance_;  // [to][from]
  std::vector<double> direct_;
  std::vector<int> direct_arc_;
  mutable std::vector<int> reached_by_;
  mutable std::vector<int> queue_;
};

}  // namespace square::planning
