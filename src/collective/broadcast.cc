#include "collective/broadcast.h"

#include "base/check.h"

namespace square {

Result<std::shared_ptr<Work>> broadcast(GroupCalls& group, std::span<std::byte> data, Rank root,
                                        Duration timeout) {
  SQUARE_RETURN_IF_ERROR(group.check_rank(root, "root"));
  const bool is_root = group.rank() == root;
  return group.call(CallKind::kBroadcast,
                    {is_root ? multicast_source(root, data) : multicast_destination(root, data)}, timeout);
}

}  // namespace square
