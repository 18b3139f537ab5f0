// One multicast from every member.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> all_gather(GroupCalls& group, std::span<const std::byte> input,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout);

}  // namespace square
