// What the members of a node give to a sum that goes on to another node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "node/sums/interleave.h"
#include "square/buffer.h"

namespace square {

// The inputs, once the members have called, and which of their blocks take which stream. Not
// thread-safe: used on the node's strand; inputs are read by payload threads too.
class Contribution {
 public:
  // Preconditions: `pin` keeps the inputs, which are as long as the sum.
  void open(std::vector<const std::byte*> inputs, std::shared_ptr<const void> pin) {
    inputs_ = std::move(inputs);
    pin_ = std::move(pin);
    is_open_ = true;
  }
  void close() { pin_.reset(); }

  // The sums begin, or begin again, without the blocks that were done before (all below `done`, and of those
  // behind where `bits` says so), and without the streams that the root has left. Not `knows_start`: parts of
  // a newer generation came before the request that says what it leaves out.
  void begin(std::size_t done, std::vector<bool> bits, std::vector<bool> left, bool knows_start) {
    done_ = done;
    bits_ = std::move(bits);
    left_ = std::move(left);
    knows_start_ = knows_start;
    interleave_ = std::make_shared<const Interleave>();
  }
  // Blocks take their streams. Not before the members have called: what a frame says of an operation
  // costs no memory.
  void deal(const PlanSession& session, std::size_t block_count) {
    if (!is_ready()) return;
    std::vector<bool> done_before(done_, true);
    done_before.insert(done_before.end(), bits_.begin(), bits_.end());
    done_before.resize(std::min(done_before.size(), block_count));
    interleave_ = deal_out(session, block_count, done_before, left_);
  }

  [[nodiscard]] bool is_open() const { return is_open_; }
  [[nodiscard]] bool knows_start() const { return knows_start_; }
  [[nodiscard]] bool is_ready() const { return is_open_ && knows_start_; }
  // Empty until they are dealt.
  [[nodiscard]] const Interleave& interleave() const { return *interleave_; }
  [[nodiscard]] const std::vector<const std::byte*>& inputs() const { return inputs_; }
  // A block of the only input, by reference.
  [[nodiscard]] Buffer show(std::size_t offset_bytes, std::size_t size_bytes) const {
    return {pin_, inputs_.front() + offset_bytes, size_bytes};
  }

 private:
  std::vector<const std::byte*> inputs_;
  std::shared_ptr<const void> pin_;
  bool is_open_ = false;
  bool knows_start_ = true;
  // Of this generation: what was done before, and the streams that take no blocks.
  std::size_t done_ = 0;
  std::vector<bool> bits_;
  std::vector<bool> left_;
  std::shared_ptr<const Interleave> interleave_ = std::make_shared<const Interleave>();
};

}  // namespace square
