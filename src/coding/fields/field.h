// What a linear code computes with: small matrices of coefficients, and blocks that they are applied to.
#pragma once

#include <cstddef>
#include <span>
#include <xtensor/xtensor.hpp>

#include "square/field_kind.h"
#include "square/status.h"

namespace square {

// Coefficients of all fields: a double holds a byte, 16 bits and a float32 as they are.
using CoefficientMatrix = xt::xtensor<double, 2>;

// Immutable; any thread.
class Field {
 public:
  // No inverse of floats is used whose condition number, in the Frobenius norm, is larger: rounding to
  // float32 would show in the fourth digit.
  static constexpr double kMostCondition = 1e3;

  virtual ~Field() = default;

  [[nodiscard]] virtual FieldKind kind() const = 0;
  // Blocks are whole symbols.
  [[nodiscard]] virtual std::size_t symbol_bytes() const = 0;
  // No: not a number of this field, as 0.5 or 256 of bytes, or infinity.
  [[nodiscard]] virtual bool contains(double coefficient) const = 0;

  // Adds `factor` times `other` to `row`, which is as long.
  virtual void add_multiple(std::span<double> row, double factor, std::span<const double> other) const = 0;
  // Takes so much of `pivot` from `row` that row[at] is 0. Preconditions: as long; pivot[at] is not 0.
  virtual void eliminate(std::span<double> row, std::span<const double> pivot, std::size_t at) const = 0;
  // Is what elimination left only the rounding of numbers as large as `scale`?
  [[nodiscard]] virtual bool is_zero(double coefficient, double scale) const = 0;

  // Errors: FAILED_PRECONDITION for a singular matrix, or one past kMostCondition. Precondition: square.
  [[nodiscard]] virtual Result<CoefficientMatrix> inverse(const CoefficientMatrix& matrix) const = 0;

  // Block i of `out` becomes the sum of matrix(i, j) times block j of `in`. Blocks begin anywhere and have
  // `bytes` bytes, whole symbols. Those of `out` overlap nothing.
  virtual void combine(const CoefficientMatrix& matrix, std::span<const std::byte* const> in,
                       std::span<std::byte* const> out, std::size_t bytes) const = 0;
};

// Precondition: one of FieldKind's.
const Field& field_of(FieldKind kind);

}  // namespace square
