// Arithmetic of a code's field, for checks: by the definition, and by nothing that planned or sent.
#pragma once

#include <cmath>
#include <cstdint>

#include "square/field_kind.h"

namespace square::validation {

// Of floats: what rounding leaves of a one or a zero.
inline constexpr double kFloatTolerance = 1e-3;

class Arithmetic {
 public:
  explicit Arithmetic(FieldKind field) : field_(field) {}

  [[nodiscard]] bool contains(double value) const {
    if (field_ == FieldKind::kFloat32) return std::isfinite(value);
    const double size = field_ == FieldKind::kGf256 ? 256.0 : 65'536.0;
    return value >= 0.0 && value < size && value == std::floor(value);
  }
  // a + b c. Precondition: all are in the field.
  [[nodiscard]] double plus_product(double a, double b, double c) const {
    if (field_ == FieldKind::kFloat32) return a + b * c;
    return static_cast<double>(static_cast<std::uint32_t>(a) ^
                               product(static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(c)));
  }
  [[nodiscard]] bool are_equal(double a, double b) const {
    return field_ == FieldKind::kFloat32 ? std::abs(a - b) <= kFloatTolerance : a == b;
  }

 private:
  // Of polynomials over two elements, modulo the field's: square/field_kind.h names them.
  [[nodiscard]] std::uint32_t product(std::uint32_t a, std::uint32_t b) const {
    const bool is_byte = field_ == FieldKind::kGf256;
    const std::uint32_t modulus = is_byte ? 0x11d : 0x1100b;
    const std::uint32_t top = is_byte ? 0x100 : 0x10000;
    std::uint32_t sum = 0;
    for (; b != 0; b >>= 1U) {
      if ((b & 1U) != 0) sum ^= a;
      a <<= 1U;
      if ((a & top) != 0) a ^= modulus;
    }
    return sum;
  }

  FieldKind field_;
};

}  // namespace square::validation
