// Operations of one step: a member's parts are posted at once, and the operation is over when they are.
// Communicator says what each does; composite_calls.h has those of several steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "collective/group_calls.h"

namespace square {

// One multicast.
Result<std::shared_ptr<Work>> broadcast(GroupCalls& group, std::span<std::byte> data, ElementType elements,
                                        Rank root, Duration timeout);

// One reduce session.
Result<std::shared_ptr<Work>> reduce(GroupCalls& group, std::span<const std::byte> input,
                                     std::span<std::byte> output, Reduction reduction, Rank root,
                                     Duration timeout);

// Planned: the plan cuts the buffer into shares, each a reduce and then a multicast.
Result<std::shared_ptr<Work>> all_reduce(GroupCalls& group, std::span<const std::byte> input,
                                         std::span<std::byte> output, Reduction reduction, Duration timeout,
                                         CallKind kind = CallKind::kAllReduce);

// One multicast from every member.
Result<std::shared_ptr<Work>> all_gather(GroupCalls& group, std::span<const std::byte> input,
                                         ElementType elements,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout);

// One reduce to every member.
Result<std::shared_ptr<Work>> reduce_scatter(GroupCalls& group,
                                             const std::vector<std::span<const std::byte>>& inputs,
                                             std::span<std::byte> output, Reduction reduction,
                                             Duration timeout);

// A unicast from every member to every other.
Result<std::shared_ptr<Work>> all_to_all(GroupCalls& group,
                                         const std::vector<std::span<const std::byte>>& inputs,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout);

// A unicast from every other member to the root.
Result<std::shared_ptr<Work>> gather(GroupCalls& group, std::span<const std::byte> input,
                                     const std::vector<std::span<std::byte>>& outputs, Rank root,
                                     Duration timeout);

// A unicast from the root to every other member.
Result<std::shared_ptr<Work>> scatter(GroupCalls& group,
                                      const std::vector<std::span<const std::byte>>& inputs,
                                      std::span<std::byte> output, Rank root, Duration timeout);

// An all-reduce of nothing.
Result<std::shared_ptr<Work>> barrier(GroupCalls& group, Duration timeout);

}  // namespace square
