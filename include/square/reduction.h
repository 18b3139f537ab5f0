// What a sum adds: the type of the elements and the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "square/status.h"

namespace square {

// Elements of a member's buffer. The values are the wire's and never change.
enum class ElementType : std::uint8_t {
  kBytes = 0,  // moved, never added
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kInt64 = 4,
};
enum class ReduceOp : std::uint8_t { kNone = 0, kSum = 1 };

struct Reduction {
  ElementType type = ElementType::kBytes;
  ReduceOp op = ReduceOp::kNone;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};
inline constexpr Reduction kNoReduction{};

// Whether there are such a type and such an operation, and they go together.
bool can_add(const Reduction& reduction);
// 1 for kBytes.
std::size_t element_bytes(ElementType type);
std::string_view to_string(ElementType type);
// "float32", ... Errors: INVALID_ARGUMENT with the names that there are.
Result<ElementType> parse_element_type(std::string_view name);

}  // namespace square
