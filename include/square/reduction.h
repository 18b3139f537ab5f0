// What a reduce adds: the type of the elements and the operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

// Elements of a member's buffer, in the byte order of the machine. The values are the wire's
// and never change.
enum class ElementType : std::uint8_t {
  kBytes = 0,  // moved, never added
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kInt64 = 4,
  // Partial sums have the element's type; what one node adds it adds in float32, and rounds once.
  kFloat16 = 5,
  kBfloat16 = 6,
  kInt8 = 7,
  kUint8 = 8,
  kInt16 = 9,
  kUint16 = 10,
  kUint32 = 11,
  kUint64 = 12,
  kBool = 13,  // a byte; all but 0 read as true, results are 0 or 1
};

// The values are the wire's and never change. Sums and products of integers wrap around; of bool
// they are "or" and "and". The least and the greatest of anything and a NaN is the NaN.
enum class ReduceOp : std::uint8_t {
  kNone = 0,
  kSum = 1,
  kProduct = 2,
  kMin = 3,
  kMax = 4,
  kAverage = 5,     // floating point only: the sum, divided once by the number of members
  kBitwiseAnd = 6,  // the three bitwise operations: integers and bool
  kBitwiseOr = 7,
  kBitwiseXor = 8,
};

struct Reduction {
  ElementType type = ElementType::kBytes;
  ReduceOp op = ReduceOp::kNone;
  friend bool operator==(const Reduction&, const Reduction&) = default;
};
inline constexpr Reduction kNoReduction{};

// Whether there are such a type and such an operation, and they go together. Errors:
// INVALID_ARGUMENT that names both and says what to use.
Status check_reduction(const Reduction& reduction);
// 1 for kBytes.
std::size_t element_bytes(ElementType type);
// "float32", ...
std::string_view to_string(ElementType type);
// "sum", "product", "min", "max", "average", "and", "or", "xor".
std::string_view to_string(ReduceOp op);
// "sum of float32", for messages.
std::string to_string(const Reduction& reduction);
// By these names. Errors: INVALID_ARGUMENT with the names that there are.
Result<ElementType> parse_element_type(std::string_view name);
Result<ReduceOp> parse_reduce_op(std::string_view name);

}  // namespace square
