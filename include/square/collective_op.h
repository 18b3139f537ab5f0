// The operations of a group that a plan can be made for.
#pragma once

#include <string_view>

namespace square {

enum class CollectiveOp {
  kBroadcast,
  kReduce,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter
};

// As scenario files and people write it: "all_reduce".
std::string_view to_string(CollectiveOp op);

// Whether the operation has a root: a source or a place where everything ends.
bool has_root(CollectiveOp op);

}  // namespace square
