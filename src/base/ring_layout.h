// Which bytes travel when in a ring all-reduce.
//
// The buffer is cut into n chunks of whole elements, and each of them into the same number of
// segments. A transfer is one segment going to the next rank; transfer t belongs to step
// t / segments. In step s, rank r sends chunk r - s and receives chunk r - s - 1, modulo n. After
// n - 1 steps it has the sum of chunk r + 1; the other n - 1 steps send the sums around.
#pragma once

#include <cstddef>
#include <cstdint>

#include "square/ids.h"

namespace square {

struct RingRange {
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
};

class RingLayout {
 public:
  // Enough segments that a step's latency and additions hide behind its other segments, none so
  // small that its own cost shows, nor so large that it takes much memory.
  static constexpr std::size_t kSegmentsPerChunk = 8;
  static constexpr std::size_t kMinSegmentBytes = std::size_t{256} << 10U;
  static constexpr std::size_t kMaxSegmentBytes = std::size_t{4} << 20U;

  // Preconditions: `ranks` is at least 2, `size_bytes` a multiple of `element_bytes`.
  RingLayout(std::size_t size_bytes, std::size_t element_bytes, std::size_t ranks, Rank self);

  // Of every chunk; at least one, so that members hear of one another when there is nothing to send.
  [[nodiscard]] std::size_t segments() const { return segments_; }
  // No segment is larger.
  [[nodiscard]] std::size_t segment_bytes() const { return segment_bytes_; }
  [[nodiscard]] std::size_t transfers() const { return 2 * sums_begin(); }
  // What is received from this transfer on is a sum; what came before is added to.
  [[nodiscard]] std::size_t sums_begin() const { return (ranks_ - 1) * segments_; }
  // Adding what the transfer brings gives the sum of all.
  [[nodiscard]] bool completes_sum(std::size_t transfer) const { return transfer / segments_ + 2 == ranks_; }
  [[nodiscard]] RingRange sent(std::size_t transfer) const;
  [[nodiscard]] RingRange received(std::size_t transfer) const;

 private:
  [[nodiscard]] RingRange segment(std::size_t chunk, std::size_t number) const;

  const std::size_t elements_;
  const std::size_t element_bytes_;
  const std::size_t ranks_;
  const std::size_t self_;
  std::size_t segments_ = 1;
  std::size_t segment_bytes_ = 0;
};

}  // namespace square
