#include "coding/codes/float_scale.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "square/encoder.h"

namespace square {
namespace {

// Larger ones may have sums that are infinite, and of smaller ones digits become subnormal.
constexpr float kLargest = 1e30F;
constexpr float kSmallest = 1e-30F;

}  // namespace

// Without the sign, bits of floats are in the order of the numbers, and those of Inf and NaN come last: one
// comparison of integers for each, which compilers turn into vectors.
float largest_magnitude(std::span<const std::byte> floats) {
  constexpr std::int32_t kMagnitude = 0x7fff'ffff;
  constexpr std::int32_t kInfinite = 0x7f80'0000;
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < floats.size() / sizeof(float); ++i) {
    std::int32_t bits;
    std::memcpy(&bits, floats.data() + i * sizeof bits, sizeof bits);
    largest = std::max(largest, bits & kMagnitude);
  }
  return std::bit_cast<float>(std::min(largest, kInfinite));
}

void FloatScale::include(float largest_of_block) {
  least_ = std::min(least_, largest_of_block);
  most_ = std::max(most_, largest_of_block);
}

bool FloatScale::keeps_digits() const {
  if (most_ == 0) return true;
  return most_ <= kLargest && least_ >= kSmallest &&
         most_ <= Encoder::kMostScale * static_cast<double>(least_);
}

}  // namespace square
