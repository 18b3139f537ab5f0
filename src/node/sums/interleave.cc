#include "node/sums/interleave.h"

#include <algorithm>
#include <queue>

#include "node/plan/delivery.h"
#include "node/plan/installed_collective.h"

namespace square {
namespace {

// When a stream would deliver its next block, in units of a block at 1 bit/s.
struct Turn {
  double delivery;
  std::uint32_t stream;
  bool operator>(const Turn& other) const {
    return delivery != other.delivery ? delivery > other.delivery : stream > other.stream;
  }
};

Turn turn_of(const Interleave::Stream& stream, std::uint32_t number, std::size_t before) {
  return {(static_cast<double>(before) + blocks_to_deliver(stream.depth)) / stream.rate_bps, number};
}

}  // namespace

Interleave::Interleave(const std::vector<Stream>& streams, std::size_t block_count,
                       const std::vector<bool>& skip, const std::vector<bool>& left)
    : orders_(streams.size()), place_(block_count) {
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::uint32_t number = 0; number < streams.size(); ++number) {
    if (number >= left.size() || !left[number]) turns.push(turn_of(streams[number], number, 0));
  }
  if (turns.empty()) return;
  for (std::uint32_t block = 0; block < block_count; ++block) {
    if (block < skip.size() && skip[block]) continue;
    const std::uint32_t number = turns.top().stream;
    turns.pop();
    auto& order = orders_[number];
    place_[block] = {number, static_cast<std::uint32_t>(order.size())};
    order.push_back(block);
    turns.push(turn_of(streams[number], number, order.size()));
  }
}

std::shared_ptr<const Interleave> deal_out(const PlanSession& session, std::size_t block_count,
                                           const std::vector<bool>& skip, const std::vector<bool>& left) {
  std::vector<Interleave::Stream> streams;
  for (const PlanStream& stream : session.streams)
    streams.push_back({stream.rate_bps, depth_of(stream, SessionKind::kReduce)});
  return std::make_shared<const Interleave>(streams, block_count, skip, left);
}

}  // namespace square
