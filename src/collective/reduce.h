// One reduce session.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> reduce(GroupCalls& group, std::span<const std::byte> input,
                                     std::span<std::byte> output, Reduction reduction, Rank root,
                                     Duration timeout);
// A member's part in it.
Part reduce_part(const GroupCalls& group, std::span<const std::byte> input, std::span<std::byte> output,
                 Reduction reduction, Rank root);

}  // namespace square
