// The flow relaxation of a directed Steiner tree as a linear program over cuts.
#pragma once

#include <set>
#include <vector>

#include "lp/solver.h"
#include "planning/exact/cut_packing.h"
#include "planning/exact/unit_flow.h"
#include "planning/packing/digraph.h"
#include "square/status.h"

namespace square::planning {

// The longest packing of cuts: one row for each arc that costs something, one column for
// each cut, found by maximum flow where the rows' duals let too little through. By the max
// flow min cut theorem the duals of the last program are the arcs' usage in the flow
// relaxation. Thread-compatible.
class CutProgram {
 public:
  // No arc of no cost may lead from the root to a terminal. `graph`, `terminals` (distinct,
  // without the root) and `cost` must outlive the program; `tree` reaches every terminal.
  CutProgram(const Digraph& graph, int root, const std::vector<int>& terminals,
             const std::vector<double>& cost, const CutPacking& start, std::vector<int> tree);

  // Errors: those of square::solve(), RESOURCE_EXHAUSTED if it takes too many rounds.
  Status solve();

  // After solve(). Usage by arc carries one unit to each terminal.
  [[nodiscard]] const std::vector<double>& usage() const { return usage_; }
  [[nodiscard]] const CutPacking& packing() const { return packing_; }

 private:
  bool add(const std::vector<int>& far_side);
  [[nodiscard]] bool tree_is_as_cheap(double length) const;
  void look_for_tree();
  bool separate(double towards_tree);
  void keep(const Solution& solution);

  const Digraph& graph_;
  int root_;
  const std::vector<int>& terminals_;
  const std::vector<double>& cost_;
  double scale_;          // the program's unit of cost
  std::vector<int> row_;  // by arc, -1 where it costs nothing
  IncrementalProgram program_;
  std::vector<std::vector<int>> cuts_;  // by column
  std::set<std::vector<int>> known_;
  std::vector<int> tree_;  // the cheapest so far
  std::vector<double> usage_;
  UnitFlow flow_;
  CutPacking packing_;
};

}  // namespace square::planning
