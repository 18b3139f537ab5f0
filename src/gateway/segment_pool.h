// Reusable segments of a process that wait for its next operation.
#pragma once

#include <cstddef>
#include <vector>

#include "gateway/segment.h"

namespace square::gateway {

inline constexpr std::size_t kMaxPooledSegments = 32;
inline constexpr std::size_t kMaxPooledBytes = std::size_t{256} << 20U;
// A larger segment than this many times what is needed is not used for it.
inline constexpr std::size_t kMaxSegmentWaste = 4;

// Not thread-safe.
class SegmentPool {
 public:
  // The smallest that fits, or an empty one.
  Segment take(std::size_t size_bytes);
  void give_back(Segment segment);

 private:
  std::vector<Segment> free_;
  std::size_t bytes_ = 0;
};

}  // namespace square::gateway
