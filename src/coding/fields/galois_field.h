// Finite fields of characteristic 2 as a Field.
#pragma once

#include <limits>

#include "coding/fields/field.h"
#include "coding/fields/galois.h"
#include "coding/fields/galois_loops.h"

namespace square {

template <typename Element>
class GaloisField final : public Field {
 public:
  explicit GaloisField(InstructionSet set) : loops_(galois_loops(set)) {}

  [[nodiscard]] FieldKind kind() const override;
  [[nodiscard]] std::size_t symbol_bytes() const override { return sizeof(Element); }
  [[nodiscard]] bool contains(double coefficient) const override;
  void add_multiple(std::span<double> row, double factor, std::span<const double> other) const override;
  void eliminate(std::span<double> row, std::span<const double> pivot, std::size_t at) const override;
  [[nodiscard]] bool is_zero(double coefficient, double) const override { return coefficient == 0; }
  [[nodiscard]] Result<CoefficientMatrix> inverse(const CoefficientMatrix& matrix) const override;
  void combine(const CoefficientMatrix& matrix, std::span<const std::byte* const> in,
               std::span<std::byte* const> out, std::size_t bytes) const override;

 private:
  const GaloisLoops& loops_;
};

extern template class GaloisField<std::uint8_t>;
extern template class GaloisField<std::uint16_t>;

}  // namespace square
