#include "node/sums/sum_results.h"

#include <algorithm>

#include "node/messages/answers.h"

namespace square {

void SumResults::open(const SumShape& shape, const SumBuffers& buffers, std::function<void()> drained) {
  blocks_ = BlockSet(shape.block_count());
  zone_ = std::make_shared<SumZone>(shape.blocks(), buffers, std::move(drained));
}

std::vector<std::size_t> SumResults::take_landed() {
  if (!zone_) return {};
  std::vector<std::size_t> landed = zone_->take_added();
  for (const std::size_t block : landed) blocks_.insert(block);
  return landed;
}

bool SumResults::has_any() const {
  if (blocks_.count() > 0 || !zone_) return blocks_.count() > 0;
  const std::vector<bool> claimed = zone_->claimed();
  return std::ranges::find(claimed, true) != claimed.end();
}

std::vector<bool> SumResults::hold() {
  if (zone_) {
    zone_->pause();
    const std::vector<bool> claimed = zone_->claimed();
    for (std::size_t block = 0; block < claimed.size(); ++block) {
      if (claimed[block]) blocks_.insert(block);
    }
  }
  const std::size_t first = blocks_.first_missing();
  std::vector<bool> done(first, true);
  for (std::size_t block = first; block < std::min(blocks_.end(), first + kMaxSpreadBlocks); ++block)
    done.push_back(blocks_.contains(block));
  return done;
}

}  // namespace square
