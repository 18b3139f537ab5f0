#include "collective/all_reduce.h"

namespace square {

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

}  // namespace square
