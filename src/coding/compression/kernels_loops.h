// The loops, compiled once for each set of vector instructions: included by the files of those and by
// nobody else. Nothing here may be seen outside its file, nor call an inline function of the standard
// library: the linker would keep one copy of it, perhaps for another processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coding/compression/kernels.h"

// Iterations do not need one another's results.
#define SQUARE_SIMD _Pragma("omp simd")
// Apart from a sum that is only reported: it may be added in any order.
#define SQUARE_SIMD_SUMS(...) SQUARE_PRAGMA(omp simd reduction(+ : __VA_ARGS__))
#define SQUARE_PRAGMA(...) _Pragma(#__VA_ARGS__)

namespace square::compression {
namespace {

constexpr std::uint32_t kSign = 0x8000'0000U;
constexpr std::uint32_t kInfinity = 0x7f80'0000U;
constexpr std::uint32_t kQuietNan = 0x7fc0'0000U;
constexpr float kLeastNormal = 0x1p-126F;
constexpr float kLargestCode = 127.0F;

template <typename To, typename From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

template <typename Element>
inline Element load(const std::byte* from, std::size_t index) {
  Element element;
  std::memcpy(&element, from + index * sizeof(Element), sizeof(Element));
  return element;
}

template <typename Element>
inline void store(std::byte* to, std::size_t index, Element element) {
  std::memcpy(to + index * sizeof(Element), &element, sizeof(Element));
}

inline float finite_or_zero(float value) {
  return (bits_as<std::uint32_t>(value) & kInfinity) == kInfinity ? 0.0F : value;
}

Loss to_bfloat16(std::byte* out, const std::byte* in, std::size_t count) {
  constexpr std::uint32_t kQuiet = 0x40U;
  double norm = 0;
  double error = 0;
  SQUARE_SIMD_SUMS(norm, error)
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = load<std::uint32_t>(in, i);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
    const std::uint32_t half = (bits & ~kSign) > kInfinity ? (bits >> 16U) | kQuiet : rounded;
    store(out, i, static_cast<std::uint16_t>(half));
    const double value = bits_as<float>(bits);
    const double left = bits_as<float>(bits) - bits_as<float>(half << 16U);  // exact
    norm += value * value;
    error += left * left;
  }
  return {norm, error};
}

void from_bfloat16(std::byte* out, const std::byte* in, std::size_t count) {
  SQUARE_SIMD
  for (std::size_t i = 0; i < count; ++i) store(out, i, std::uint32_t{load<std::uint16_t>(in, i)} << 16U);
}

// The smallest step whose multiples by -127 to 127 reach all of the block: see int8_blocks.h.
inline float scale_of(const std::byte* in, std::size_t count) {
  std::int32_t largest = 0;
  _Pragma("omp simd reduction(max : largest)") for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<std::int32_t>(load<std::uint32_t>(in, i) & ~kSign);
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= static_cast<std::int32_t>(kInfinity)) return bits_as<float>(kQuietNan);
  const float scale = bits_as<float>(largest) / kLargestCode;
  // Quotients by a subnormal step would lose bits, or overflow.
  if (scale < kLeastNormal) return kLeastNormal;
  // Rounded up, the step of the very largest floats would decode to infinity.
  const auto top = bits_as<std::uint32_t>(scale * kLargestCode);
  return top >= kInfinity ? bits_as<float>(bits_as<std::uint32_t>(scale) - 1) : scale;
}

Loss block_to_int8(std::byte* codes, const std::byte* in, std::size_t count, float scale) {
  // Added to this, a small number is rounded to the nearest whole one, of two to the even one, which is
  // then in the lower bits.
  constexpr float kRounder = 12'582'912.0F;  // 1.5 * 2^23
  const auto rounder_bits = bits_as<std::int32_t>(kRounder);
  float norm = 0;
  float error = 0;
  SQUARE_SIMD_SUMS(norm, error)
  for (std::size_t i = 0; i < count; ++i) {
    const float steps = load<float>(in, i) / scale;
    const std::int32_t code = bits_as<std::int32_t>(steps + kRounder) - rounder_bits;
    store(codes, i, static_cast<std::int8_t>(code));
    const float left = steps - static_cast<float>(code);
    norm += steps * steps;
    error += left * left;
  }
  const double square = double{scale} * double{scale};
  return {square * double{norm}, square * double{error}};
}

Loss to_int8(std::byte* scales, std::byte* codes, const std::byte* in, std::size_t count, std::size_t block) {
  Loss loss;
  for (std::size_t at = 0, index = 0; at < count; at += block, ++index) {
    const std::size_t size = count - at < block ? count - at : block;
    const float scale = scale_of(in + 4 * at, size);
    store(scales, index, scale);
    if (scale != scale) {
      std::memset(codes + at, 0, size);
      loss.squared_norm += double{scale};
      loss.squared_error += double{scale};
      continue;
    }
    const Loss part = block_to_int8(codes + at, in + 4 * at, size, scale);
    loss.squared_norm += part.squared_norm;
    loss.squared_error += part.squared_error;
  }
  return loss;
}

void from_int8(std::byte* out, const std::byte* scales, const std::byte* codes, std::size_t count,
               std::size_t block) {
  for (std::size_t at = 0, index = 0; at < count; at += block, ++index) {
    const std::size_t size = count - at < block ? count - at : block;
    const auto scale = load<float>(scales, index);
    std::byte* const to = out + 4 * at;
    const std::byte* const from = codes + at;
    SQUARE_SIMD
    for (std::size_t i = 0; i < size; ++i)
      store(to, i, static_cast<float>(load<std::int8_t>(from, i)) * scale);
  }
}

void add_int8(std::byte* sum, const std::byte* scales, const std::byte* codes, std::size_t count,
              std::size_t block) {
  for (std::size_t at = 0, index = 0; at < count; at += block, ++index) {
    const std::size_t size = count - at < block ? count - at : block;
    const auto scale = load<float>(scales, index);
    std::byte* const to = sum + 4 * at;
    const std::byte* const from = codes + at;
    SQUARE_SIMD
    for (std::size_t i = 0; i < size; ++i)
      store(to, i, load<float>(to, i) + static_cast<float>(load<std::int8_t>(from, i)) * scale);
  }
}

void subtract_int8(std::byte* residual, const std::byte* scales, const std::byte* codes, std::size_t count,
                   std::size_t block) {
  for (std::size_t at = 0, index = 0; at < count; at += block, ++index) {
    const std::size_t size = count - at < block ? count - at : block;
    const auto scale = load<float>(scales, index);
    std::byte* const to = residual + 4 * at;
    const std::byte* const from = codes + at;
    SQUARE_SIMD
    for (std::size_t i = 0; i < size; ++i) {
      const float sent = static_cast<float>(load<std::int8_t>(from, i)) * scale;
      store(to, i, finite_or_zero(load<float>(to, i) - sent));
    }
  }
}

void add(std::byte* sum, const std::byte* in, std::size_t count) {
  SQUARE_SIMD
  for (std::size_t i = 0; i < count; ++i) store(sum, i, load<float>(sum, i) + load<float>(in, i));
}

void divide(std::byte* values, std::size_t count, float divisor) {
  SQUARE_SIMD
  for (std::size_t i = 0; i < count; ++i) store(values, i, load<float>(values, i) / divisor);
}

void add_scaled(std::byte* sum, const std::byte* in, std::size_t count, float factor) {
  SQUARE_SIMD
  for (std::size_t i = 0; i < count; ++i)
    store(sum, i, finite_or_zero(load<float>(sum, i) + factor * load<float>(in, i)));
}

void clear_non_finite(std::byte* values, std::size_t count) {
  SQUARE_SIMD
  for (std::size_t i = 0; i < count; ++i) store(values, i, finite_or_zero(load<float>(values, i)));
}

double squared_norm(const std::byte* in, std::size_t count) {
  double norm = 0;
  SQUARE_SIMD_SUMS(norm)
  for (std::size_t i = 0; i < count; ++i) {
    const double value = load<float>(in, i);
    norm += value * value;
  }
  return norm;
}

inline std::uint32_t magnitude(const std::byte* in, std::size_t index) {
  return load<std::uint32_t>(in, index) & ~kSign;
}

void count_magnitudes(std::uint32_t* counts, const std::byte* in, std::size_t count) {
  // Neighbours are often in one bin, and an increment waits for the last one of the same.
  constexpr std::size_t kLanes = 4;
  std::uint32_t lanes[kLanes - 1][kMagnitudeBins];
  std::memset(lanes, 0, sizeof(lanes));
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    ++counts[magnitude(in, i) >> kMagnitudeShift];
    for (std::size_t lane = 1; lane < kLanes; ++lane)
      ++lanes[lane - 1][magnitude(in, i + lane) >> kMagnitudeShift];
  }
  for (; i < count; ++i) ++counts[magnitude(in, i) >> kMagnitudeShift];
  for (const auto& lane : lanes) {
    for (std::size_t bin = 0; bin < kMagnitudeBins; ++bin) counts[bin] += lane[bin];
  }
}

std::size_t find_large(std::uint32_t* indices, std::size_t room, const std::byte* in, std::size_t count,
                       std::uint32_t least) {
  // Large elements are rare: most stretches of this length have none, and vectors see that at once.
  constexpr std::size_t kStretch = 32;
  const auto bound = static_cast<std::int32_t>(least);
  std::size_t found = 0;
  for (std::size_t at = 0; at < count; at += kStretch) {
    const std::size_t end = count - at < kStretch ? count : at + kStretch;
    std::int32_t some = 0;
    if (end - at == kStretch) {
      _Pragma("omp simd reduction(| : some)") for (std::size_t i = 0; i < kStretch; ++i) some |=
          static_cast<std::int32_t>(magnitude(in + 4 * at, i)) >= bound ? 1 : 0;
      if (some == 0) continue;
    }
    for (std::size_t i = at; i < end; ++i) {
      if (magnitude(in, i) < least) continue;
      if (found < room) indices[found] = static_cast<std::uint32_t>(i);
      ++found;
    }
  }
  return found;
}

constexpr Kernels kLoops{
    to_bfloat16, from_bfloat16, to_int8,          from_int8,    add_int8,         subtract_int8, add,
    divide,      add_scaled,    clear_non_finite, squared_norm, count_magnitudes, find_large};

}  // namespace
}  // namespace square::compression
