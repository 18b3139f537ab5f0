#include "collective/one_step_calls.h"

#include "base/check.h"

namespace square {

namespace {

// A member's part in a reduce.
Part reduce_part(const GroupCalls& group, std::span<const std::byte> input, std::span<std::byte> output,
                 Reduction reduction, Rank root) {
  Part part;
  part.collective.op = CollectiveOp::kReduce;
  part.collective.root = root;
  part.call.is_root = group.rank() == root;
  part.call.input = input;
  if (part.call.is_root) part.call.output = output;
  part.call.reduction = reduction;
  return part;
}

}  // namespace

Result<std::shared_ptr<Work>> broadcast(GroupCalls& group, std::span<std::byte> data, ElementType elements,
                                        Rank root, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  const bool is_root = group.rank() == root;
  Part part = is_root ? multicast_source(root, data, elements) : multicast_destination(root, data);
  part.call.call_root = root;
  return group.call(CallKind::kBroadcast, {std::move(part)}, timeout);
}

Result<std::shared_ptr<Work>> reduce(GroupCalls& group, std::span<const std::byte> input,
                                     std::span<std::byte> output, Reduction reduction, Rank root,
                                     Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  Part part = reduce_part(group, input, output, reduction, root);
  part.call.call_root = root;
  return group.call(CallKind::kReduce, {std::move(part)}, timeout);
}

Result<std::shared_ptr<Work>> all_reduce(GroupCalls& group, std::span<const std::byte> input,
                                         std::span<std::byte> output, Reduction reduction, Duration timeout,
                                         CallKind kind) {
  Part part;
  part.collective.op = CollectiveOp::kAllReduce;
  part.call.input = input;
  part.call.output = output;
  part.call.reduction = reduction;
  return group.call(kind, {std::move(part)}, timeout);
}

Result<std::shared_ptr<Work>> all_gather(GroupCalls& group, std::span<const std::byte> input,
                                         ElementType elements,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_buffers(outputs.size(), "outputs"));
  SQUARE_RETURN_IF_ERROR(copy_own(group.rank(), input, outputs[group.rank().index()]));
  std::vector<Part> parts;
  for (const Rank root : group.ranks()) {
    // From the output: the input is free again if the two differ.
    const std::span<std::byte> data = outputs[root.index()];
    parts.push_back(root == group.rank() ? multicast_source(root, data, elements)
                                         : multicast_destination(root, data));
  }
  return group.call(CallKind::kAllGather, std::move(parts), timeout);
}

Result<std::shared_ptr<Work>> reduce_scatter(GroupCalls& group,
                                             const std::vector<std::span<const std::byte>>& inputs,
                                             std::span<std::byte> output, Reduction reduction,
                                             Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_buffers(inputs.size(), "inputs"));
  std::vector<Part> parts;
  for (const Rank root : group.ranks())
    parts.push_back(reduce_part(group, inputs[root.index()], output, reduction, root));
  return group.call(CallKind::kReduceScatter, std::move(parts), timeout);
}

Result<std::shared_ptr<Work>> all_to_all(GroupCalls& group,
                                         const std::vector<std::span<const std::byte>>& inputs,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_buffers(inputs.size(), "inputs"));
  SQUARE_RETURN_IF_ERROR(group.check_buffers(outputs.size(), "outputs"));
  const Rank self = group.rank();
  SQUARE_RETURN_IF_ERROR(copy_own(self, inputs[self.index()], outputs[self.index()]));
  std::vector<Part> parts;
  std::vector<GroupCollective> all;
  for (const Rank from : group.ranks()) {
    for (const Rank to : group.ranks()) {
      if (from != to) all.push_back(unicast(from, to, kCollectiveChannel));
    }
    if (from == self) continue;
    parts.push_back(unicast_source(self, from, inputs[from.index()], kCollectiveChannel));
    parts.push_back(unicast_destination(self, from, outputs[from.index()], kCollectiveChannel));
  }
  return group.call(CallKind::kAllToAll, std::move(parts), timeout, all);
}

Result<std::shared_ptr<Work>> gather(GroupCalls& group, std::span<const std::byte> input,
                                     const std::vector<std::span<std::byte>>& outputs, Rank root,
                                     Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  const Rank self = group.rank();
  if (self == root) {
    SQUARE_RETURN_IF_ERROR(group.check_buffers(outputs.size(), "outputs"));
    SQUARE_RETURN_IF_ERROR(copy_own(self, input, outputs[self.index()]));
  }
  std::vector<Part> parts;
  std::vector<GroupCollective> all;
  for (const Rank from : group.ranks()) {
    if (from == root) continue;
    all.push_back(unicast(from, root, kCollectiveChannel));
    if (self == root)
      parts.push_back(unicast_destination(self, from, outputs[from.index()], kCollectiveChannel));
  }
  if (self != root) parts.push_back(unicast_source(self, root, input, kCollectiveChannel));
  for (Part& part : parts) part.call.call_root = root;
  return group.call(CallKind::kGather, std::move(parts), timeout, all);
}

Result<std::shared_ptr<Work>> scatter(GroupCalls& group,
                                      const std::vector<std::span<const std::byte>>& inputs,
                                      std::span<std::byte> output, Rank root, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  const Rank self = group.rank();
  if (self == root) {
    SQUARE_RETURN_IF_ERROR(group.check_buffers(inputs.size(), "inputs"));
    SQUARE_RETURN_IF_ERROR(copy_own(self, inputs[self.index()], output));
  }
  std::vector<Part> parts;
  std::vector<GroupCollective> all;
  for (const Rank to : group.ranks()) {
    if (to == root) continue;
    all.push_back(unicast(root, to, kCollectiveChannel));
    if (self == root) parts.push_back(unicast_source(self, to, inputs[to.index()], kCollectiveChannel));
  }
  if (self != root) parts.push_back(unicast_destination(self, root, output, kCollectiveChannel));
  for (Part& part : parts) part.call.call_root = root;
  return group.call(CallKind::kScatter, std::move(parts), timeout, all);
}

Result<std::shared_ptr<Work>> barrier(GroupCalls& group, Duration timeout) {
  return all_reduce(group, {}, {}, {ElementType::kInt32, ReduceOp::kSum}, timeout, CallKind::kBarrier);
}

}  // namespace square
