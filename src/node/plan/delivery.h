// How long a block is under way through a stream's tree.
#pragma once

#include <algorithm>
#include <cstddef>

namespace square {

// What a block takes on each link after the first, in blocks of its stream: at most one where the stream has
// the link alone, little where it is one of many.
inline constexpr double kFurtherLink = 0.5;

// From its start on the first link to its arrival over so many links, in blocks of its stream.
inline double blocks_to_deliver(std::size_t depth) {
  return 1 + kFurtherLink * static_cast<double>(std::max<std::size_t>(1, depth) - 1);
}

}  // namespace square
