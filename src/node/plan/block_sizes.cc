#include "node/plan/block_sizes.h"

#include <algorithm>

namespace square {
namespace {

double total_rate_bps(const PlanSession& session) {
  double sum = 0;
  for (const PlanStream& stream : session.streams) sum += stream.rate_bps;
  return sum;
}

// The mean over a session's streams, weighted by rate: that of the stream of a random block.
double typical_rate_bps(const PlanSession& session) {
  double squares = 0;
  for (const PlanStream& stream : session.streams) squares += stream.rate_bps * stream.rate_bps;
  return squares / total_rate_bps(session);
}

// The smallest also where streams without any rate make it no number.
std::size_t whole_block(double bytes) {
  constexpr auto kMost = static_cast<double>(kMaxBlockBytes);
  const std::size_t block =
      bytes > kMinBlockBytes ? static_cast<std::size_t>(std::min(bytes, kMost)) : kMinBlockBytes;
  return block - block % kBlockGranuleBytes;
}

}  // namespace

void BlockSizes::add(const PlanSession& session, double limit_bytes) {
  if (session.streams.empty()) return;
  const double typical_bps = typical_rate_bps(session);
  // A frame has room for a sum and what travels with it.
  const double most = session.codes.empty() ? limit_bytes : std::min(limit_bytes, kMaxBlockBytes / 2.0);
  const auto block_of = [&](double seconds) {
    return whole_block(std::min(typical_bps * seconds / kBitsPerByte, most));
  };
  sizes_[session.id] = {block_of(kBlockSeconds), block_of(kCoarseBlockSeconds),
                        typical_bps / total_rate_bps(session), session.streams.size()};
}

const BlockSizes::Sizes& BlockSizes::of(SessionId session) const {
  static const Sizes kSmallest;
  const auto found = sizes_.find(session);
  return found == sizes_.end() ? kSmallest : found->second;
}

std::size_t BlockSizes::block_bytes(SessionId session, std::uint64_t total_bytes) const {
  if (!sizes_.contains(session)) return kMinBlockBytes;
  const Sizes& sizes = of(session);
  const auto total = static_cast<double>(total_bytes);
  const double steady = std::clamp(total * sizes.typical_part * kBlockPartOfOperation,
                                   static_cast<double>(sizes.fine), static_cast<double>(sizes.coarse));
  return whole_block(std::min(steady, total / static_cast<double>(kBlocksPerStream * sizes.streams)));
}

}  // namespace square
