#include "base/ring_layout.h"

#include <algorithm>

namespace square {
namespace {

constexpr std::size_t divide_up(std::size_t amount, std::size_t by) { return (amount + by - 1) / by; }

// Where part `number` of `parts` begins; the first ones are the larger by one.
constexpr std::size_t begin_of(std::size_t elements, std::size_t parts, std::size_t number) {
  return number * (elements / parts) + std::min(number, elements % parts);
}

}  // namespace

RingLayout::RingLayout(std::size_t size_bytes, std::size_t element_bytes, std::size_t ranks, Rank self)
    : elements_(size_bytes / element_bytes),
      element_bytes_(element_bytes),
      ranks_(ranks),
      self_(self.index()) {
  const std::size_t chunk = divide_up(elements_, ranks_);
  const std::size_t wanted =
      std::clamp(chunk * element_bytes_ / kSegmentsPerChunk, kMinSegmentBytes, kMaxSegmentBytes);
  segments_ = std::max<std::size_t>(1, divide_up(chunk * element_bytes_, wanted));
  segment_bytes_ = divide_up(chunk, segments_) * element_bytes_;
}

RingRange RingLayout::sent(std::size_t transfer) const {
  const std::size_t step = transfer / segments_;
  return segment((self_ + 2 * ranks_ - step) % ranks_, transfer % segments_);
}

RingRange RingLayout::received(std::size_t transfer) const {
  const std::size_t step = transfer / segments_;
  return segment((self_ + 2 * ranks_ - step - 1) % ranks_, transfer % segments_);
}

RingRange RingLayout::segment(std::size_t chunk, std::size_t number) const {
  const std::size_t first = begin_of(elements_, ranks_, chunk);
  const std::size_t size = begin_of(elements_, ranks_, chunk + 1) - first;
  const std::size_t begin = first + begin_of(size, segments_, number);
  const std::size_t end = first + begin_of(size, segments_, number + 1);
  return {begin * element_bytes_, (end - begin) * element_bytes_};
}

}  // namespace square
