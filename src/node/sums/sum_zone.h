// The sums of a reduce where they end: a part that is the only one of its block is added by the
// thread that received it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "coding/sum.h"
#include "node/landing/landing.h"
#include "node/sums/interleave.h"
#include "square/reduction.h"

namespace square {

// What the root's members give, added in this order, and where the sums go.
struct SumBuffers {
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  Reduction reduction;
  std::uint32_t group_size = 1;  // that an average is divided by

  // The sum of the inputs, then the parts, into every output. Any thread, one a block.
  void add_block(std::size_t offset_bytes, std::size_t size_bytes,
                 const std::vector<const Buffer*>& parts) const;
};

// The outputs of a reduce's root, on streams with one parent. What is added here is final: in
// place, the input is gone then. So a part is claimed only if it is of the present attempt and
// in its place, and the strand hears of it even if it refuses the frame. Thread-safe.
class SumZone final : public LandingZone {
 public:
  // Which parts are of the present attempt; retries come on top.
  struct Beginning {
    Epoch epoch;
    std::uint16_t generation = 0;
    std::shared_ptr<const Interleave> interleave;
  };

  // Nothing lands before the first begin().
  SumZone(BlockShape shape, SumBuffers buffers, std::function<void()> drained);

  void begin(Beginning beginning);
  // Nothing more lands until begin(): what is claimed() then is all that was added, or is being.
  void pause();
  // Only this retry of the block is still taken. False: a part of it is claimed already.
  bool ask_again(std::size_t block, std::uint16_t retry);
  // The blocks that landed since the last call and are added.
  std::vector<std::size_t> take_added();

 private:
  [[nodiscard]] bool admits(const FrameHeader& header, std::size_t block) const override;
  bool write(const FrameHeader& header, const Buffer& payload) override;
  bool counts_at_once(std::size_t block) override;

  const SumBuffers buffers_;
  Beginning beginning_;  // without an interleave while paused
  std::map<std::size_t, std::uint16_t> retries_;
  std::vector<std::size_t> added_;
};

}  // namespace square
