#include "collective/point_to_point.h"

#include <fmt/format.h>

#include "base/check.h"

namespace square {

namespace {

Result<std::uint32_t> channel_of(const GroupCalls& group, Rank peer, const char* what, std::uint32_t tag) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(peer, what));
  if (peer == group.rank()) {
    return invalid_argument(
        fmt::format("rank {} sends to itself: copy the bytes instead", group.rank().value()));
  }
  if (tag > Communicator::kMaxTag) {
    return invalid_argument(fmt::format("tag {} is above {}", tag, Communicator::kMaxTag));
  }
  return tag + kCollectiveChannel + 1;
}

}  // namespace

Result<std::shared_ptr<Work>> send(GroupCalls& group, std::span<const std::byte> data, Rank to,
                                   std::uint32_t tag, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const std::uint32_t channel, channel_of(group, to, "destination", tag));
  return group.call({unicast_source(group.rank(), to, data, channel)}, timeout);
}

Result<std::shared_ptr<Work>> receive(GroupCalls& group, std::span<std::byte> data, Rank from,
                                      std::uint32_t tag, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const std::uint32_t channel, channel_of(group, from, "source", tag));
  return group.call({unicast_destination(group.rank(), from, data, channel)}, timeout);
}

}  // namespace square
