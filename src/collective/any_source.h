// A receive from whichever member sends first.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

// The node tells when the next message of each source has begun to come; the first one is
// then received as any other.
Result<std::shared_ptr<Work>> receive_any(std::shared_ptr<GroupCalls> group, std::span<std::byte> data,
                                          std::uint32_t tag, Duration timeout);

}  // namespace square
