// One multicast.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> broadcast(GroupCalls& group, std::span<std::byte> data, Rank root,
                                        Duration timeout);

}  // namespace square
