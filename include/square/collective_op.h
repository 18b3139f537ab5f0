// The operations of a group that a plan can be made for.
#pragma once

#include <cstdint>
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

// The sessions that a plan makes of it among so many nodes: sources with destinations, or sums.
std::uint64_t session_count(CollectiveOp op, std::uint64_t members);

}  // namespace square
