#include "collective/all_gather.h"

#include "base/check.h"

namespace square {

Result<std::shared_ptr<Work>> all_gather(GroupCalls& group, std::span<const std::byte> input,
                                         const std::vector<std::span<std::byte>>& outputs, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_buffers(outputs.size(), "outputs"));
  SQUARE_RETURN_IF_ERROR(copy_own(group.rank(), input, outputs[group.rank().index()]));
  std::vector<Part> parts;
  for (const Rank root : group.ranks()) {
    // From the output: the input is free again if the two differ.
    const std::span<std::byte> data = outputs[root.index()];
    parts.push_back(root == group.rank() ? multicast_source(root, data) : multicast_destination(root, data));
  }
  return group.call(CallKind::kAllGather, std::move(parts), timeout);
}

}  // namespace square
