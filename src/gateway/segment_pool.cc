#include "gateway/segment_pool.h"

#include <utility>

namespace square::gateway {

Segment SegmentPool::take(std::size_t size_bytes) {
  auto best = free_.end();
  for (auto place = free_.begin(); place != free_.end(); ++place) {
    const std::size_t capacity = place->capacity_bytes;
    if (capacity < size_bytes || capacity / kMaxSegmentWaste > size_bytes) continue;
    if (best == free_.end() || capacity < best->capacity_bytes) best = place;
  }
  if (best == free_.end()) return {};
  Segment segment = std::move(*best);
  free_.erase(best);
  bytes_ -= segment.capacity_bytes;
  return segment;
}

void SegmentPool::give_back(Segment segment) {
  if (!segment.descriptor || segment.capacity_bytes > kMaxPooledBytes) return;
  bytes_ += segment.capacity_bytes;
  free_.push_back(std::move(segment));
  while (free_.size() > kMaxPooledSegments || bytes_ > kMaxPooledBytes) {
    bytes_ -= free_.front().capacity_bytes;
    free_.erase(free_.begin());
  }
}

}  // namespace square::gateway
