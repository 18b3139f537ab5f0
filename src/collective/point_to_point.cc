#include "collective/point_to_point.h"

#include <fmt/format.h>

#include "base/check.h"

namespace square {

std::uint32_t channel_of(std::uint32_t tag) { return tag + kCollectiveChannel + 1; }

Status check_tag(std::uint32_t tag) {
  if (tag <= Communicator::kMaxTag) return Status::ok();
  return invalid_argument(fmt::format("tag {} is above {}", tag, Communicator::kMaxTag));
}

namespace {

Status check_peer(const GroupCalls& group, Rank peer, const char* what) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(peer, what));
  if (peer != group.rank()) return Status::ok();
  return invalid_argument(
      fmt::format("rank {} is the {} of its own message: copy the bytes instead", peer.value(), what));
}

}  // namespace

Result<std::shared_ptr<Work>> send(GroupCalls& group, std::span<const std::byte> data, Rank to,
                                   std::uint32_t tag, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(check_peer(group, to, "destination"));
  SQUARE_RETURN_IF_ERROR(check_tag(tag));
  return group.call(CallKind::kNone, {unicast_source(group.rank(), to, data, channel_of(tag))}, timeout);
}

Result<std::shared_ptr<Work>> receive(GroupCalls& group, std::span<std::byte> data, Rank from,
                                      std::uint32_t tag, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(check_peer(group, from, "source"));
  SQUARE_RETURN_IF_ERROR(check_tag(tag));
  return group.call(CallKind::kNone, {unicast_destination(group.rank(), from, data, channel_of(tag))},
                    timeout);
}

}  // namespace square
