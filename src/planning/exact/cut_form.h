// Max-min fair rates of collectives that reach all nodes, all-reduces among them, without a tree: by cuts.
//
// Multicasts from roots r at rates f_r, and sums to roots at rates h_r, fit into c1(e) for the ones and c2(e)
// for the others if and only if for every set S of nodes, not empty, what c1 lets into S is at least the f_r
// of all roots outside S, and what c2 lets out of S at least their h_r (Edmonds 1973, Frank 1978). So c1, c2
// and the shares of the roots are all the variables there are, and what a link carries is one of them: limits
// of nodes are rows like any other.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/instance.h"
#include "planning/exact/proof.h"

namespace square::planning {

struct CutFormAnswer {
  std::vector<double> rate;                // by group
  std::vector<std::vector<double>> share;  // of it, by alternative: as even as the rates allow
  std::vector<ProvenLevel> levels;
};

// Nothing where a session does not reach all nodes, has a bound on latency or redundancy, or may use other
// links than the others, or where there is a budget. Cuts come from maximum flows, so that nothing is left
// out but what rounding hides. Errors: INTERNAL from the solver or past kMaxCutFormRounds. Blocks;
// thread-safe.
Result<std::optional<CutFormAnswer>> cut_form_rates(const Instance& instance);

inline constexpr int kMaxCutFormRounds = 200;

}  // namespace square::planning
