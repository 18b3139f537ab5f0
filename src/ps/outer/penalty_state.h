// What penalty.cc and what writes its state agree on.
#pragma once

namespace square::ps {

// No push of float32 has a longer norm, whatever its size. What is below it can be squared and summed without
// overflow.
inline constexpr double kLargestNorm = 1e100;

}  // namespace square::ps
