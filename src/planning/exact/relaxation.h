// The flow relaxation of the directed Steiner tree, and its dual.
#pragma once

#include <utility>
#include <vector>

#include "planning/exact/cut_packing.h"
#include "planning/packing/digraph.h"
#include "square/status.h"

namespace square::planning {

// Entries that one relaxation of a plan may have.
inline constexpr double kMaxRelaxationWork = 5e6;

// What it costs at least to carry one unit from a root to all terminals with coding: an
// arc is paid for the most that any terminal's flow puts on it. No tree costs less; some
// problems have no tree as cheap.
struct Relaxation {
  // A way from the root on (no arcs for the root itself), and what it carries.
  using Path = std::pair<std::vector<int>, double>;
  double cost = 0.0;
  std::vector<double> usage;             // by arc: the most that one terminal's paths carry
  std::vector<std::vector<Path>> paths;  // by terminal, as given: simple, rates sum to one
  CutPacking packing;                    // its length is `cost`, to 1e-9 of it
};

// Solved exactly: by dual ascent where a tree is as cheap as its packing, else as a linear
// program over cuts that are found as they are needed (maximum flow, minimum cut). Costs by
// arc, at least zero and finite. Errors: FAILED_PRECONDITION if a terminal cannot be
// reached, RESOURCE_EXHAUSTED if its program over arc flows, three entries for each arc and
// terminal, would have more than `work_limit` entries after all reductions; errors of
// square::solve(). Blocks. Thread-safe.
Result<Relaxation> steiner_relaxation(const Digraph& graph, int root, const std::vector<int>& terminals,
                                      const std::vector<double>& cost, double work_limit);

}  // namespace square::planning
