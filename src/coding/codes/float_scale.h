// Whether sums of multiples of blocks of floats would keep the digits of all of them.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace square {

// The largest of the float32's magnitudes, infinite if one is no finite number. Of bytes behind the last
// whole float nothing is said. Any thread.
float largest_magnitude(std::span<const std::byte> floats);

// How far apart the scales of a generation's blocks are.
class FloatScale {
 public:
  void include(float largest_of_block);
  // Not further than Encoder::kMostScale, and so far from the largest and the smallest floats that sums of
  // multiples are floats, too.
  [[nodiscard]] bool keeps_digits() const;

 private:
  float least_ = std::numeric_limits<float>::infinity();
  float most_ = 0;
};

}  // namespace square
