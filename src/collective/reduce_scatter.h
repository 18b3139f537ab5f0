// One reduce to every member.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> reduce_scatter(GroupCalls& group,
                                             const std::vector<std::span<const std::byte>>& inputs,
                                             std::span<std::byte> output, Reduction reduction,
                                             Duration timeout);

}  // namespace square
