#include "node/sums/sum_zone.h"

#include <algorithm>
#include <utility>

#include "node/sums/sum_messages.h"

namespace square {

void SumBuffers::add_block(std::size_t offset_bytes, std::size_t size_bytes,
                           const std::vector<const Buffer*>& parts) const {
  if (size_bytes == 0) return;
  std::vector<Operand> operands;
  for (const std::byte* input : inputs) operands.push_back({input + offset_bytes, nullptr});
  for (const Buffer* part : parts) operands.push_back({nullptr, part});
  std::byte* const sum = outputs.front() + offset_bytes;
  add({sum, size_bytes}, operands, reduction, group_size);
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i] != outputs.front()) std::copy_n(sum, size_bytes, outputs[i] + offset_bytes);
  }
}

SumZone::SumZone(BlockShape shape, SumBuffers buffers, std::function<void()> drained)
    : LandingZone(shape, std::move(drained)), buffers_(std::move(buffers)) {}

void SumZone::begin(Beginning beginning) {
  const std::lock_guard lock(mutex());
  beginning_ = std::move(beginning);
  retries_.clear();
}

void SumZone::pause() {
  const std::lock_guard lock(mutex());
  beginning_.interleave.reset();
}

bool SumZone::ask_again(std::size_t block, std::uint16_t retry) {
  const std::lock_guard lock(mutex());
  if (is_claimed(block)) return false;
  retries_[block] = retry;
  return true;
}

std::vector<std::size_t> SumZone::take_added() {
  const std::lock_guard lock(mutex());
  return std::exchange(added_, {});
}

bool SumZone::admits(const FrameHeader& header, std::size_t block) const {
  if (!beginning_.interleave || header.epoch != beginning_.epoch) return false;
  if (Reduction{static_cast<ElementType>(header.element_type), static_cast<ReduceOp>(header.reduce_op)} !=
      buffers_.reduction) {
    return false;
  }
  if (!beginning_.interleave->is_dealt(block) ||
      beginning_.interleave->stream_of(block) != header.stream.index()) {
    return false;
  }
  const auto retry = retries_.find(block);
  return attempt_from_wire(header.attempt) ==
         Attempt{beginning_.generation, retry == retries_.end() ? std::uint16_t{0} : retry->second};
}

bool SumZone::write(const FrameHeader& header, const Buffer& payload) {
  buffers_.add_block(header.offset_bytes, payload.size_bytes(), {&payload});
  return true;
}

bool SumZone::counts_at_once(std::size_t block) {
  added_.push_back(block);
  return true;
}

}  // namespace square
