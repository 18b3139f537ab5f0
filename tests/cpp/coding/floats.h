// Floats to compress, of every kind that there is, and the tables of kernels that there are.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "coding/compression/kernels.h"

namespace square::test {

using compression::Kernels;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLargest = std::numeric_limits<float>::max();
inline constexpr float kDenormal = std::numeric_limits<float>::denorm_min();

// SQUARE_SEED reruns one.
inline std::uint64_t seed() {
  const char* given = std::getenv("SQUARE_SEED");
  return given != nullptr ? std::stoull(given) : 20'251'122;
}

inline std::vector<float> normal_floats(std::mt19937_64& random, std::size_t count, float scale = 1.0F) {
  std::normal_distribution<float> draw(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

// Any bits but those of infinities and NaNs.
inline std::vector<float> any_finite(std::mt19937_64& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {
    do value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    while (!std::isfinite(value));
  }
  return values;
}

inline std::span<std::byte> bytes(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}
inline std::span<const std::byte> bytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> all;
  for (const float value : values) all.push_back(std::bit_cast<std::uint32_t>(value));
  return all;
}

struct Table {
  InstructionSet set;
  const Kernels* kernels;
};
inline std::vector<Table> tables() {
  std::vector<Table> all;
  for (const InstructionSet set : available_instruction_sets())
    all.push_back({set, &compression::kernels(set)});
  return all;
}

}  // namespace square::test
