#include "collective/scatter.h"

#include "base/check.h"

namespace square {

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
  return group.call(CallKind::kScatter, std::move(parts), timeout, all);
}

}  // namespace square
