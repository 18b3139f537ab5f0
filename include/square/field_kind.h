// The fields that blocks can be coded over.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace square {

// The values are the wire's and never change.
enum class FieldKind : std::uint8_t {
  kGf256 = 1,    // bytes, modulo x^8 + x^4 + x^3 + x^2 + 1: exact, for up to 256 destinations
  kGf65536 = 2,  // pairs of bytes, modulo x^16 + x^12 + x^3 + x + 1: exact, for more
  kFloat32 = 3,  // numbers, as the paper's 3a + 2b: rounded, so never the default
};

// "gf256", "gf65536", "float32".
std::string_view to_string(FieldKind kind);
// Nothing for another name.
std::optional<FieldKind> field_kind(std::string_view name);

}  // namespace square
