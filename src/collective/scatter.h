// A unicast from the root to every other member.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> scatter(GroupCalls& group,
                                      const std::vector<std::span<const std::byte>>& inputs,
                                      std::span<std::byte> output, Rank root, Duration timeout);

}  // namespace square
