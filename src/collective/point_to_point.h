// Messages: a unicast, one channel for every tag.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

// The channel of the messages with a tag.
std::uint32_t channel_of(std::uint32_t tag);
Status check_tag(std::uint32_t tag);

Result<std::shared_ptr<Work>> send(GroupCalls& group, std::span<const std::byte> data, Rank to,
                                   std::uint32_t tag, Duration timeout);
Result<std::shared_ptr<Work>> receive(GroupCalls& group, std::span<std::byte> data, Rank from,
                                      std::uint32_t tag, Duration timeout);

}  // namespace square
