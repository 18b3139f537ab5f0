// The k-shot approximation of max-min fairness, and the filling after it.
#pragma once

#include <optional>
#include <vector>

#include "planning/square/formulation.h"

namespace square::planning {

struct ShotsAnswer {
  std::vector<Allocation> allocations;  // by session, summed over all programs
  std::vector<double> collective_bps;   // g_c, likewise
  std::vector<ShotTrace> trace;
  // Of the first program of kind (6); none where there was no such program.
  std::optional<Prices> level_prices;
};

// Solves (6) `shots` times, each over what the one before left and without the
// collective that held it back, then (1) once over all of them. With no shots, (1) alone.
// Errors: INTERNAL from the solver, naming the program.
Result<ShotsAnswer> run_shots(const Problem& problem, int shots);

}  // namespace square::planning
