// Which sums of a reduce's root are in its members' outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "node/multicast/block_set.h"
#include "node/sums/sum_shape.h"
#include "node/sums/sum_zone.h"

namespace square {

// Every block is added once, by who has claimed it: here, or where its part lands. Not thread-safe,
// but for the zone.
class SumResults {
 public:
  // `drained` runs on any thread, as in LandingZone. Nothing is taken before begin().
  void open(const SumShape& shape, const SumBuffers& buffers, std::function<void()> drained);
  void begin(SumZone::Beginning beginning) { zone_->begin(std::move(beginning)); }
  // None before open().
  [[nodiscard]] const std::shared_ptr<SumZone>& zone() const { return zone_; }

  // It is added, or being added, as far as the strand has heard.
  [[nodiscard]] bool has(std::size_t block) const {
    return block < blocks_.size() && blocks_.contains(block);
  }
  // False if a part of it has landed.
  bool claim(std::size_t block) { return zone_->claim(block) && blocks_.insert(block); }
  // Only this retry is still taken. False if a part of it has landed.
  bool ask_again(std::size_t block, std::uint16_t retry) { return zone_->ask_again(block, retry); }
  // The blocks that have landed since the last call: in the outputs whatever becomes of their frames.
  std::vector<std::size_t> take_landed();
  // One more is in the outputs.
  void count() { ++added_; }
  [[nodiscard]] std::size_t count_added() const { return added_; }
  [[nodiscard]] bool is_complete() const { return added_ == blocks_.size(); }
  // One at least is there, or on its way.
  [[nodiscard]] bool has_any() const;
  [[nodiscard]] bool is_drained() const { return !zone_ || zone_->is_drained(); }

  // Nothing more lands until begin(). What is done, or soon will be: the blocks that a new beginning
  // leaves out, as far as a request can say so.
  std::vector<bool> hold();

 private:
  std::shared_ptr<SumZone> zone_;
  BlockSet blocks_;
  std::size_t added_ = 0;
};

}  // namespace square
