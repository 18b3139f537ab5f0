#include "square/collective_op.h"

#include "base/check.h"

namespace square {

std::string_view to_string(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kBroadcast: return "broadcast";
    case CollectiveOp::kReduce: return "reduce";
    case CollectiveOp::kAllReduce: return "all_reduce";
    case CollectiveOp::kAllGather: return "all_gather";
    case CollectiveOp::kReduceScatter: return "reduce_scatter";
    case CollectiveOp::kAllToAll: return "all_to_all";
    case CollectiveOp::kGather: return "gather";
    case CollectiveOp::kScatter: return "scatter";
  }
  SQUARE_CHECK(false, "an operation without a name");
  return {};
}

bool has_root(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce || op == CollectiveOp::kGather ||
         op == CollectiveOp::kScatter;
}

std::uint64_t session_count(CollectiveOp op, std::uint64_t members) {
  if (members < 2) return 0;
  switch (op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce: return 1;
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter: return members - 1;
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter: return members;
    case CollectiveOp::kAllReduce: return 2 * members;  // each member's part is summed, and sent out
    case CollectiveOp::kAllToAll: return members * (members - 1);
  }
  SQUARE_CHECK(false, "an operation without a number of sessions");
  return 0;
}

}  // namespace square
