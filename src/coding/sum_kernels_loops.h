// The loops, compiled once for each set of vector instructions: included by the files of those
// and by nobody else. Nothing here may be seen outside its file, nor call an inline function of
// the standard library: the linker would keep one copy of it, perhaps for another processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "coding/sum_kernels.h"

// `out` is an operand or overlaps none: no iteration needs what another one wrote.
#if defined(__clang__)
#define SQUARE_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define SQUARE_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace square {
namespace {

template <typename To, typename From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

template <typename Element>
Element load_at(const std::byte* at) {
  Element element;
  std::memcpy(&element, at, sizeof(Element));
  return element;
}

// Narrow unsigned integers become signed ones in an expression: their products would overflow.
template <typename Element>
using Wrapping =
    std::conditional_t<std::is_integral_v<Element> && sizeof(Element) < 4, std::uint32_t, Element>;

struct Sum {
  template <typename Element>
  static Element of(Element a, Element b) {
    return static_cast<Element>(Wrapping<Element>(a) + Wrapping<Element>(b));
  }
};
struct Product {
  template <typename Element>
  static Element of(Element a, Element b) {
    return static_cast<Element>(Wrapping<Element>(a) * Wrapping<Element>(b));
  }
};
struct Least {
  template <typename Element>
  static Element of(Element a, Element b) {
    if constexpr (std::is_floating_point_v<Element>) return ((a < b) | (a != a)) ? a : b;  // a NaN wins
    return a < b ? a : b;
  }
};
struct Greatest {
  template <typename Element>
  static Element of(Element a, Element b) {
    if constexpr (std::is_floating_point_v<Element>) return ((a > b) | (a != a)) ? a : b;
    return a > b ? a : b;
  }
};
struct And {
  template <typename Element>
  static Element of(Element a, Element b) {
    return static_cast<Element>(a & b);
  }
};
struct Or {
  template <typename Element>
  static Element of(Element a, Element b) {
    return static_cast<Element>(a | b);
  }
};
struct Xor {
  template <typename Element>
  static Element of(Element a, Element b) {
    return static_cast<Element>(a ^ b);
  }
};

template <typename Element, typename Operation>
void fold(std::byte* out, const std::byte* left, const std::byte* right, std::size_t bytes) {
  SQUARE_INDEPENDENT_ITERATIONS
  for (std::size_t at = 0; at < bytes; at += sizeof(Element)) {
    const Element result = Operation::of(load_at<Element>(left + at), load_at<Element>(right + at));
    std::memcpy(out + at, &result, sizeof(Element));
  }
}

template <typename Element>
void divide(std::byte* out, const std::byte* in, std::size_t bytes, double divisor) {
  const auto by = static_cast<Element>(divisor);
  SQUARE_INDEPENDENT_ITERATIONS
  for (std::size_t at = 0; at < bytes; at += sizeof(Element)) {
    const Element result = load_at<Element>(in + at) / by;
    std::memcpy(out + at, &result, sizeof(Element));
  }
}

// Signed integers wrap around: they are added as unsigned ones.
template <typename Element>
Fold integer_fold(ReduceOp op) {
  using Unsigned = std::make_unsigned_t<Element>;
  switch (op) {
    case ReduceOp::kSum: return fold<Unsigned, Sum>;
    case ReduceOp::kProduct: return fold<Unsigned, Product>;
    case ReduceOp::kMin: return fold<Element, Least>;
    case ReduceOp::kMax: return fold<Element, Greatest>;
    case ReduceOp::kBitwiseAnd: return fold<Unsigned, And>;
    case ReduceOp::kBitwiseOr: return fold<Unsigned, Or>;
    case ReduceOp::kBitwiseXor: return fold<Unsigned, Xor>;
    case ReduceOp::kNone:
    case ReduceOp::kAverage: break;
  }
  return nullptr;
}

template <typename Element>
Fold float_fold(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage: return fold<Element, Sum>;
    case ReduceOp::kProduct: return fold<Element, Product>;
    case ReduceOp::kMin: return fold<Element, Least>;
    case ReduceOp::kMax: return fold<Element, Greatest>;
    default: return nullptr;
  }
}

// Of 0 and 1.
Fold bool_fold(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitwiseOr: return fold<std::uint8_t, Or>;
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitwiseAnd: return fold<std::uint8_t, And>;
    case ReduceOp::kBitwiseXor: return fold<std::uint8_t, Xor>;
    case ReduceOp::kNone:
    case ReduceOp::kAverage: break;
  }
  return nullptr;
}

void load_bool(std::byte* out, const std::byte* in, std::size_t elements) {
  SQUARE_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < elements; ++i) out[i] = in[i] == std::byte{0} ? std::byte{0} : std::byte{1};
}

constexpr std::uint32_t kFloat32Infinity = 0x7f80'0000U;
constexpr std::uint32_t kFloat32Sign = 0x8000'0000U;

void load_bfloat16(std::byte* out, const std::byte* in, std::size_t elements) {
  SQUARE_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < elements; ++i) {
    const std::uint32_t bits = std::uint32_t{load_at<std::uint16_t>(in + 2 * i)} << 16U;
    std::memcpy(out + 4 * i, &bits, 4);
  }
}

// To the nearest, of two to the even one. A NaN stays one: its lower half alone may say so.
void store_bfloat16(std::byte* out, const std::byte* in, std::size_t elements) {
  constexpr std::uint32_t kQuiet = 0x40U;
  SQUARE_INDEPENDENT_ITERATIONS
  for (std::size_t i = 0; i < elements; ++i) {
    const auto bits = load_at<std::uint32_t>(in + 4 * i);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    const bool is_nan = (bits & ~kFloat32Sign) > kFloat32Infinity;
    const auto half = static_cast<std::uint16_t>(is_nan ? (bits >> 16U) | kQuiet : rounded);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

// The exponents of float16 and float32 have offsets of 15 and 127, the fractions 10 and 23 bits.
constexpr std::uint32_t kOffsetDifference = (127U - 15U) << 23U;

// Every case is computed and one chosen, so that vectors can do it.
std::uint32_t float32_bits(std::uint16_t half) {
  constexpr std::uint32_t kExponent = 0x7c00U << 13U;
  const std::uint32_t shifted = (half & 0x7fffU) << 13U;
  const std::uint32_t exponent = shifted & kExponent;
  const std::uint32_t normal = shifted + kOffsetDifference;
  const std::uint32_t special = normal + kOffsetDifference;  // infinity or a NaN, which becomes quiet
  const std::uint32_t quiet = special > kFloat32Infinity ? special | 0x40'0000U : special;
  // Subnormal: a fraction of the least normal exponent, less what that adds. Exact.
  constexpr std::uint32_t kLeast = kOffsetDifference + (1U << 23U);
  const auto subnormal = bits_as<std::uint32_t>(bits_as<float>(shifted + kLeast) - bits_as<float>(kLeast));
  const std::uint32_t finite = exponent == 0 ? subnormal : normal;
  return (exponent == kExponent ? quiet : finite) | (half & 0x8000U) << 16U;
}

std::uint16_t float16_bits(std::uint32_t bits) {
  constexpr std::uint32_t kTooLarge = (127U + 16U) << 23U;       // 2^16
  constexpr std::uint32_t kLeastNormal = (127U - 14U) << 23U;    // 2^-14
  constexpr std::uint32_t kAligner = (127U - 14U + 13U) << 23U;  // 2^-1: its last bit is a half's, 2^-24
  const std::uint32_t magnitude = bits & ~kFloat32Sign;
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  const std::uint32_t normal = (magnitude - kOffsetDifference + 0xfffU + odd) >> 13U;
  // The addition rounds a subnormal result as it should be.
  const std::uint32_t subnormal =
      bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(kAligner)) - kAligner;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13U) & 0x3ffU);
  const std::uint32_t special = magnitude > kFloat32Infinity ? nan : 0x7c00U;
  const std::uint32_t finite = magnitude < kLeastNormal ? subnormal : normal;
  return static_cast<std::uint16_t>((magnitude >= kTooLarge ? special : finite) | (bits >> 16U & 0x8000U));
}

void load_float16(std::byte* out, const std::byte* in, std::size_t elements) {
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= elements; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i));
    _mm256_storeu_ps(reinterpret_cast<float*>(out + 4 * i), _mm256_cvtph_ps(halves));
  }
#endif
  SQUARE_INDEPENDENT_ITERATIONS
  for (; i < elements; ++i) {
    const std::uint32_t bits = float32_bits(load_at<std::uint16_t>(in + 2 * i));
    std::memcpy(out + 4 * i, &bits, 4);
  }
}

void store_float16(std::byte* out, const std::byte* in, std::size_t elements) {
  std::size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= elements; i += 8) {
    const __m256 values = _mm256_loadu_ps(reinterpret_cast<const float*>(in + 4 * i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i),
                     _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  SQUARE_INDEPENDENT_ITERATIONS
  for (; i < elements; ++i) {
    const std::uint16_t half = float16_bits(load_at<std::uint32_t>(in + 4 * i));
    std::memcpy(out + 2 * i, &half, 2);
  }
}

template <typename Element>
Arithmetic integers(ReduceOp op) {
  return {sizeof(Element), sizeof(Element), nullptr, integer_fold<Element>(op), nullptr, nullptr};
}

template <typename Element>
Arithmetic floats(ReduceOp op) {
  return {sizeof(Element),
          sizeof(Element),
          nullptr,
          float_fold<Element>(op),
          op == ReduceOp::kAverage ? divide<Element> : nullptr,
          nullptr};
}

Arithmetic halves(ReduceOp op, Convert load, Convert store) {
  Arithmetic arithmetic = floats<float>(op);
  arithmetic.element_bytes = sizeof(std::uint16_t);
  arithmetic.load = load;
  arithmetic.store = store;
  return arithmetic;
}

Arithmetic choose_arithmetic(Reduction reduction) {
  const ReduceOp op = reduction.op;
  switch (reduction.type) {
    case ElementType::kFloat16: return halves(op, load_float16, store_float16);
    case ElementType::kBfloat16: return halves(op, load_bfloat16, store_bfloat16);
    case ElementType::kFloat32: return floats<float>(op);
    case ElementType::kFloat64: return floats<double>(op);
    case ElementType::kInt8: return integers<std::int8_t>(op);
    case ElementType::kUint8: return integers<std::uint8_t>(op);
    case ElementType::kInt16: return integers<std::int16_t>(op);
    case ElementType::kUint16: return integers<std::uint16_t>(op);
    case ElementType::kInt32: return integers<std::int32_t>(op);
    case ElementType::kUint32: return integers<std::uint32_t>(op);
    case ElementType::kInt64: return integers<std::int64_t>(op);
    case ElementType::kUint64: return integers<std::uint64_t>(op);
    case ElementType::kBool: return {1, 1, load_bool, bool_fold(op), nullptr, nullptr};
    case ElementType::kBytes: break;
  }
  return {};
}

}  // namespace
}  // namespace square
