// An all-reduce of nothing.
#pragma once

#include <memory>
#include <span>

#include "collective/group_calls.h"

namespace square {

Result<std::shared_ptr<Work>> barrier(GroupCalls& group, Duration timeout);

}  // namespace square
