#include "lp/clp_matrix.h"

#include <doctest/doctest.h>

#include <ClpSimplex.hpp>
#include <CoinIndexedVector.hpp>
#include <memory>
#include <vector>

namespace square::internal {
namespace {

constexpr int kSize = 8;

// Halves on the diagonal.
std::unique_ptr<ClpSimplex> model_of_halves() {
  std::vector<int> positions;
  for (int i = 0; i < kSize; ++i) positions.push_back(i);
  const std::vector<double> halves(kSize, 0.5);
  const CoinPackedMatrix matrix(true, positions.data(), positions.data(), halves.data(), kSize);
  auto model = std::make_unique<ClpSimplex>();
  model->setLogLevel(0);
  const std::vector<double> bounds(kSize, 1.0);
  const std::vector<double> none(kSize, 0.0);
  model->loadProblem(ColumnMatrix(matrix), none.data(), bounds.data(), none.data(), none.data(),
                     bounds.data());
  return model;
}

TEST_CASE("a product by rows is the same without what is nearly nothing, and does not end the process") {
  const std::unique_ptr<ClpSimplex> model = model_of_halves();
  const std::unique_ptr<ClpMatrixBase> rows(model->clpMatrix()->reverseOrderedCopy());
  const std::unique_ptr<ClpMatrixBase> copy(rows->clone());
  // The last one times a half is 0, which CLP asserts not to happen.
  const std::vector<double> values = {-0.5, 1e-100, 3.0, 5e-324};
  for (const ClpMatrixBase* matrix : {rows.get(), copy.get()}) {
    CoinIndexedVector x(kSize);
    CoinIndexedVector y(kSize);
    CoinIndexedVector z(kSize);
    for (int i = 0; i < 4; ++i) {
      x.getIndices()[i] = i;
      x.denseVector()[i] = values[i];
    }
    x.setNumElements(4);
    x.setPackedMode(true);
    dynamic_cast<const ClpPackedMatrix&>(*matrix).transposeTimesByRow(model.get(), -1.0, &x, &y, &z);
    REQUIRE(z.getNumElements() == 2);
    CHECK(z.getIndices()[0] == 0);
    CHECK(z.denseVector()[0] == 0.25);
    CHECK(z.getIndices()[1] == 2);
    CHECK(z.denseVector()[1] == -1.5);
    CHECK(x.getNumElements() == 4);
  }
}

TEST_CASE("a model keeps the matrix through solving, a copy and more columns") {
  const std::unique_ptr<ClpSimplex> model = model_of_halves();
  model->dual();
  CHECK(model->problemStatus() == 0);
  const std::vector<CoinBigIndex> starts = {0, 1};
  const int row = 3;
  const double value = 2.0;
  model->addColumns(1, nullptr, nullptr, nullptr, starts.data(), &row, &value);
  model->primal();
  CHECK(model->problemStatus() == 0);
  const ClpSimplex copy(*model);
  CHECK(dynamic_cast<const ColumnMatrix*>(model->clpMatrix()) != nullptr);
  CHECK(dynamic_cast<const ColumnMatrix*>(copy.clpMatrix()) != nullptr);
}

}  // namespace
}  // namespace square::internal
