// Numbers as a Field: the paper's code, in float32 over blocks and in float64 over coefficients.
#pragma once

#include "coding/fields/field.h"
#include "coding/instruction_set.h"

namespace square {

class FloatField final : public Field {
 public:
  explicit FloatField(InstructionSet set) : set_(set) {}

  [[nodiscard]] FieldKind kind() const override { return FieldKind::kFloat32; }
  [[nodiscard]] std::size_t symbol_bytes() const override { return sizeof(float); }
  [[nodiscard]] bool contains(double coefficient) const override;
  // Sums are rounded to float32: blocks say no more.
  void add_multiple(std::span<double> row, double factor, std::span<const double> other) const override;
  void eliminate(std::span<double> row, std::span<const double> pivot, std::size_t at) const override;
  [[nodiscard]] bool is_zero(double coefficient, double scale) const override;
  [[nodiscard]] Result<CoefficientMatrix> inverse(const CoefficientMatrix& matrix) const override;
  void combine(const CoefficientMatrix& matrix, std::span<const std::byte* const> in,
               std::span<std::byte* const> out, std::size_t bytes) const override;

 private:
  InstructionSet set_;
};

}  // namespace square
