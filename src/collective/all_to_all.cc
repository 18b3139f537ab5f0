#include "collective/all_to_all.h"

#include "base/check.h"

namespace square {

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

}  // namespace square
