#include "collective/reduce_scatter.h"

#include "base/check.h"
#include "collective/reduce.h"

namespace square {

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

}  // namespace square
