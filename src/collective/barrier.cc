#include "collective/barrier.h"

#include "collective/all_reduce.h"

namespace square {

Result<std::shared_ptr<Work>> barrier(GroupCalls& group, Duration timeout) {
  return all_reduce(group, {}, {}, {ElementType::kInt32, ReduceOp::kSum}, timeout, CallKind::kBarrier);
}

}  // namespace square
