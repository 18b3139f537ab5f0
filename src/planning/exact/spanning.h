// Lexicographic max-min fairness among sessions that reach all nodes: cuts decide it, no linear program
// needed.
#pragma once

#include <utility>
#include <vector>

#include "planning/packing/digraph.h"
#include "square/status.h"

namespace square::planning {

// One rate g, shared out among the roots: each broadcasts `fraction` * g to all nodes.
struct SpanningGroup {
  double weight = 1.0;
  std::vector<std::pair<int, double>> roots;  // node and fraction, above zero; nodes may repeat
};

// Why groups stop: the roots outside `far_side` together fill what leads into it.
struct SpanningLevel {
  double level = 0.0;         // g / weight of the groups that stop here
  std::vector<int> groups;    // ascending: active before, and with a root outside far_side
  std::vector<int> far_side;  // ascending nodes S: sum of fraction * g over the roots outside = C(into S)
};

struct SpanningAnswer {
  std::vector<double> rate;           // g by group, in the unit of the capacities
  std::vector<SpanningLevel> levels;  // never falling; equal levels may follow one another
};

// The rates whose sorted g / weight is lexicographically greatest. Rates f at roots are jointly feasible iff
// for every set S of nodes, not empty, those with a root outside S sum to at most C(into S) (Edmonds 1973,
// Frank 1978). A level is the least t at which some S fills while all active groups have g = weight * t; the
// groups with a root outside that S stop. A root that cannot reach all nodes gets rate 0, by an S that no
// capacity leads into. Levels and rates come from the sums over S, not from flows. `capacity` by arc, at
// least zero and finite. INVALID_ARGUMENT: a negative or infinite number, a weight or fraction not above
// zero, a group without roots, a root that is no node, fewer than two nodes. INTERNAL: no end within
// kMaxCutsPerNode cuts. Blocks; thread-safe.
Result<SpanningAnswer> solve_spanning(const Digraph& graph, const std::vector<double>& capacity,
                                      const std::vector<SpanningGroup>& groups);

}  // namespace square::planning
