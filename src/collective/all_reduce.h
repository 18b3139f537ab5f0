// Planned: the plan cuts the buffer into shares, each a reduce and then a multicast.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> all_reduce(GroupCalls& group, std::span<const std::byte> input,
                                         std::span<std::byte> output, Reduction reduction, Duration timeout,
                                         CallKind kind = CallKind::kAllReduce);

}  // namespace square
