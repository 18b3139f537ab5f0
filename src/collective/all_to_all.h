// A unicast from every member to every other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> all_to_all(GroupCalls& group,
                                         const std::vector<std::span<const std::byte>>& inputs,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout);

}  // namespace square
