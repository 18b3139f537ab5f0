#include "collective/gather.h"

#include "base/check.h"

namespace square {

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
  return group.call(CallKind::kGather, std::move(parts), timeout, all);
}

}  // namespace square
