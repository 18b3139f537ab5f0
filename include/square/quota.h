// How much of one tenant's may be under way at once.
#pragma once

#include <cstdint>
#include <limits>

namespace square {

// On each node, of calls that have not ended yet: of its members there, and what others' pass through it.
struct Quota {
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t operations = kNone;  // kNone: as many as its share of the node has room for
  std::uint64_t bytes = kNone;       // that its members on the node have called them with

  friend bool operator==(const Quota&, const Quota&) = default;
};

}  // namespace square
