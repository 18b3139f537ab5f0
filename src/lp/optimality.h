// Is an answer to a linear program the optimum? Decided from the numbers alone.
#pragma once

#include "lp/linear_program.h"
#include "square/status.h"

namespace square {

// Relative to 1 and the sizes of the terms that are compared.
inline constexpr double kPrimalTolerance = 1e-6;
inline constexpr double kDualTolerance = 1e-6;
inline constexpr double kObjectiveTolerance = 1e-6;

// OK if the primal point keeps every bound, every dual has the sign that its row's or
// column's bounds allow, and both objectives agree: by weak duality that is a proof.
// INTERNAL naming the first check that failed otherwise.
Status check_optimality(const LinearProgram& program, const Solution& solution);

}  // namespace square
