#include "lp/clp_matrix.h"

#include <CoinIndexedVector.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

namespace square::internal {
namespace {

// Far below all tolerances, and far above the marks.
constexpr double kNothing = 1e-50;

bool is_nothing(double value) { return std::abs(value) < kNothing; }

}  // namespace

void RowCopy::transposeTimesByRow(const ClpSimplex* model, double scalar, const CoinIndexedVector* x,
                                  CoinIndexedVector* y, CoinIndexedVector* z) const {
  const int count = x->getNumElements();
  const double* const values = x->denseVector();
  if (!x->packedMode() || std::none_of(values, values + count, is_nothing))
    return ClpPackedMatrix::transposeTimesByRow(model, scalar, x, y, z);
  CoinIndexedVector rest(count);
  int left = 0;
  for (int i = 0; i < count; ++i) {
    if (is_nothing(values[i])) continue;
    rest.getIndices()[left] = x->getIndices()[i];
    rest.denseVector()[left++] = values[i];
  }
  rest.setNumElements(left);
  rest.setPackedMode(true);
  ClpPackedMatrix::transposeTimesByRow(model, scalar, &rest, y, z);
}

ClpMatrixBase* ColumnMatrix::reverseOrderedCopy() const {
  const std::unique_ptr<ClpMatrixBase> copy(ClpPackedMatrix::reverseOrderedCopy());
  return new RowCopy(dynamic_cast<const ClpPackedMatrix&>(*copy));
}

}  // namespace square::internal
