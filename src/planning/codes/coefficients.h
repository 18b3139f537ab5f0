// The factors of a code's sums, so that every terminal can solve for the blocks.
#pragma once

#include <cstddef>
#include <vector>

#include "planning/codes/contents.h"
#include "square/field_kind.h"
#include "square/status.h"

namespace square::planning {

struct Coefficients {
  std::vector<std::vector<double>> factors;  // by content: of its inputs; none for a block
  std::vector<std::vector<double>> rows;     // by content: of the root's blocks
  // By terminal: the inverse of the rows of what ends its ways, row by row.
  std::vector<std::vector<std::vector<double>>> inverses;
  double condition = 0.0;  // of floats: the worst terminal's, in the Frobenius norm, divided by K
};

// Floats are refused above this: a terminal would lose more than three of their seven digits.
inline constexpr double kMostCodeCondition = 200.0;
// Of floats as many sets of factors are tried, and the best is taken.
inline constexpr int kFloatCandidates = 64;

// Over finite fields by the linear information flow of Jaggi et al. (IEEE Transactions on Information Theory
// 51, 2005): sum after sum, in the order of feeding, factors are chosen so that what crosses each terminal's
// ways still spans all blocks. All 1, where that does. There are such factors wherever the field has more
// elements than terminals share a sum. The same for the same problem. Errors: FAILED_PRECONDITION where the
// field has too few, or of floats for a condition above kMostCodeCondition.
Result<Coefficients> code_coefficients(FieldKind field, const CodeProblem& problem, const EdgeGraph& graph,
                                       const std::vector<TerminalWays>& ways, const Contents& contents);

}  // namespace square::planning
