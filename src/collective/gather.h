// A unicast from every other member to the root.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> gather(GroupCalls& group, std::span<const std::byte> input,
                                     const std::vector<std::span<std::byte>>& outputs, Rank root,
                                     Duration timeout);

}  // namespace square
