// All-reduce around a ring: every member sends to the next rank only (node/rings/ring_steps.h).
#pragma once

#include <memory>
#include <span>

#include "collective/composite_calls.h"
#include "collective/group_calls.h"

namespace square {

// Of the unicasts to the next rank: no message has it, whatever its tag.
inline constexpr std::uint32_t kRingChannel = Communicator::kMaxTag + 2;

// Every member has the same bits, and a rerun has them again: additions go in the order of ranks,
// whatever the plan. Errors: INVALID_ARGUMENT as of a planned one, and those of
// CompositeCalls::start(). Blocks as that does.
Result<std::shared_ptr<Work>> ring_all_reduce(GroupCalls& group, CompositeCalls& calls,
                                              std::span<const std::byte> input, std::span<std::byte> output,
                                              Reduction reduction, Duration timeout);

}  // namespace square
