#include "node/interleave.h"

#include <queue>

namespace square {
namespace {

// When a stream would be through with its next block, in units of a block at 1 bit/s.
struct Turn {
  double finish;
  std::uint32_t stream;
  bool operator>(const Turn& other) const {
    return finish != other.finish ? finish > other.finish : stream > other.stream;
  }
};

}  // namespace

Interleave::Interleave(const std::vector<double>& rates_bps, std::size_t block_count,
                       const std::vector<bool>& skip)
    : orders_(rates_bps.size()), place_(block_count) {
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::uint32_t stream = 0; stream < rates_bps.size(); ++stream) {
    turns.push({1.0 / rates_bps[stream], stream});
  }
  if (turns.empty()) return;
  for (std::uint32_t block = 0; block < block_count; ++block) {
    if (block < skip.size() && skip[block]) continue;
    const std::uint32_t stream = turns.top().stream;
    turns.pop();
    auto& order = orders_[stream];
    place_[block] = {stream, static_cast<std::uint32_t>(order.size())};
    order.push_back(block);
    turns.push({static_cast<double>(order.size() + 1) / rates_bps[stream], stream});
  }
}

}  // namespace square
