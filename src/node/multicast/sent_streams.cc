#include "node/multicast/sent_streams.h"

#include <algorithm>

namespace square::sending {
namespace {

// The time from a block's start on its first link to its arrival is what it takes on so many
// links, or on all of the stream's tree where that is deeper.
constexpr double kMinDeliveryLinks = 2.0;
// A stream is not silent before so many times what a block should take.
constexpr double kSlowDelivery = 4.0;
constexpr Duration kLongestDelivery = std::chrono::minutes(1);
// What is left on an old stream shares its links with the new ones.
constexpr double kSharedLinks = 2.0;

Duration at_most_longest(double seconds) {
  return from_seconds(std::min(seconds, to_seconds(kLongestDelivery)));
}

}  // namespace

double delivery_links(const LocalStream& stream) {
  return std::max(kMinDeliveryLinks, static_cast<double>(stream.depth));
}

bool Stream::has_room() const {
  return std::ranges::all_of(hops, [](const auto& hop) { return hop->has_room(); });
}

bool Stream::is_usable() const {
  return !is_silent && std::ranges::all_of(hops, [](const auto& hop) { return hop->is_usable(); });
}

std::size_t Stream::queued_blocks() const {
  std::size_t most = 0;
  for (const auto& hop : hops) most = std::max(most, hop->queued_blocks());
  return most;
}

double Stream::seconds_per_block(std::size_t block_bytes) const {
  return static_cast<double>(block_bytes) * kBitsPerByte / local->rate_bps;
}

Duration Stream::slow_delivery(std::size_t block_bytes) const {
  const double hop = seconds_per_block(block_bytes) + 2 * to_seconds(local->latency);
  return at_most_longest(kSlowDelivery * delivery_links(*local) * hop);
}

Duration time_under_way(const std::vector<Stream>& streams, std::size_t block_bytes) {
  Duration longest{0};
  for (const Stream& stream : streams) {
    if (stream.in_flight.empty()) continue;
    const double in_line =
        static_cast<double>(stream.in_flight.size()) * stream.seconds_per_block(block_bytes);
    longest = std::max(longest, at_most_longest(kSharedLinks * in_line) + stream.slow_delivery(block_bytes));
  }
  return longest;
}

}  // namespace square::sending
