// The matrix that a model of CLP gets. Included by this folder only.
#pragma once

#include <ClpPackedMatrix.hpp>

namespace square::internal {

// CLP marks what cancelled out by 1e-100, and goes on calculating with the marks. Where one of them has come
// down to nothing at all a product by rows ends the process: CLP 1.17, as distributions build it, asserts
// `elValue` in gutsOfTransposeTimesByRowGE3(). This copy by rows leaves out what is as small as a mark.
class RowCopy final : public ClpPackedMatrix {
 public:
  explicit RowCopy(const ClpPackedMatrix& copy) : ClpPackedMatrix(copy) {}

  [[nodiscard]] ClpMatrixBase* clone() const override { return new RowCopy(*this); }
  void transposeTimesByRow(const ClpSimplex* model, double scalar, const CoinIndexedVector* x,
                           CoinIndexedVector* y, CoinIndexedVector* z) const override;
};

// By columns; the copies by rows that CLP asks it for are RowCopy.
class ColumnMatrix final : public ClpPackedMatrix {
 public:
  explicit ColumnMatrix(const CoinPackedMatrix& matrix) : ClpPackedMatrix(matrix) {}

  [[nodiscard]] ClpMatrixBase* clone() const override { return new ColumnMatrix(*this); }
  [[nodiscard]] ClpMatrixBase* reverseOrderedCopy() const override;
};

}  // namespace square::internal
