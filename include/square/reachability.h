// Which nodes of a topology can reach which.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "square/topology.h"

namespace square {

// What groups cannot reach is listed for so many of them: it grows with their square.
inline constexpr std::size_t kMaxComparedGroups = 1'000;

struct Reachability {
  // The nodes of one group all reach one another. Largest groups first, then by their first
  // node; nodes by id.
  std::vector<std::vector<NodeId>> groups;
  // By group, the groups that no path leads to. None with more than kMaxComparedGroups.
  std::optional<std::vector<std::vector<std::size_t>>> unreachable;
};

// Strongly connected components and what is between them. O(nodes + links), and the square of
// the groups. Thread-safe; does not block.
Reachability reachability_of(const Topology& topology);

}  // namespace square
