#include "coding/fields/float_field.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>
#include <xtensor/xmath.hpp>

#include "base/check.h"
#include "coding/fields/elimination.h"
#include "coding/fields/float_loops.h"

namespace square {
namespace {

struct Real {
  using Element = double;
  static double add(double a, double b) { return a + b; }
  static double subtract(double a, double b) { return a - b; }
  static double multiply(double a, double b) { return a * b; }
  static double inverse(double a) { return 1 / a; }
  static double weight(double a) { return std::abs(a); }
};

// A row of which less is new would make the condition number large.
constexpr double kLeastPart = 0.01;

double frobenius(const CoefficientMatrix& matrix) { return std::sqrt(xt::sum(matrix * matrix)()); }

}  // namespace

bool FloatField::contains(double coefficient) const {
  return std::abs(coefficient) <= static_cast<double>(std::numeric_limits<float>::max()) &&
         coefficient == static_cast<double>(static_cast<float>(coefficient));
}

void FloatField::add_multiple(std::span<double> row, double factor, std::span<const double> other) const {
  square::add_multiple<Real>(row, factor, other);
  for (double& sum : row) sum = static_cast<double>(static_cast<float>(sum));
}

void FloatField::eliminate(std::span<double> row, std::span<const double> pivot, std::size_t at) const {
  square::eliminate<Real>(row, pivot, at);
}

bool FloatField::is_zero(double coefficient, double scale) const {
  return std::abs(coefficient) <= kLeastPart * scale;
}

Result<CoefficientMatrix> FloatField::inverse(const CoefficientMatrix& matrix) const {
  std::optional<CoefficientMatrix> inverse = inverse_of<Real>(matrix);
  const double condition = inverse ? frobenius(matrix) * frobenius(*inverse) : INFINITY;
  if (!(condition <= kMostCondition)) {
    return failed_precondition(
        fmt::format("the rows of coefficients have condition number {:.3g}, and {:g} is the most: floats "
                    "would lose too many digits",
                    condition, kMostCondition));
  }
  return *std::move(inverse);
}

void FloatField::combine(const CoefficientMatrix& matrix, std::span<const std::byte* const> in,
                         std::span<std::byte* const> out, std::size_t bytes) const {
  SQUARE_CHECK(matrix.shape(0) == out.size() && matrix.shape(1) == in.size() && bytes % sizeof(float) == 0,
               "a matrix has a row for each block that is made and a column for each that there is");
  std::vector<float> coefficients;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < out.size(); ++i) {
    coefficients.clear();
    sources.clear();
    for (std::size_t j = 0; j < in.size(); ++j) {
      // What is not in a sum is not touched: 0 times infinity is no number.
      if (matrix(i, j) == 0) continue;
      coefficients.push_back(static_cast<float>(matrix(i, j)));
      sources.push_back(in[j]);
    }
    combine_floats(coefficients, sources, out[i], bytes / sizeof(float), set_);
  }
}

}  // namespace square
