#include "collective/reduce.h"

#include "base/check.h"

namespace square {

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

Result<std::shared_ptr<Work>> reduce(GroupCalls& group, std::span<const std::byte> input,
                                     std::span<std::byte> output, Reduction reduction, Rank root,
                                     Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  return group.call(CallKind::kReduce, {reduce_part(group, input, output, reduction, root)}, timeout);
}

}  // namespace square
