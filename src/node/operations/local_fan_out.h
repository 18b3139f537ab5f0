// What members of one node give to each other: added or copied in memory, without a link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "coding/sum.h"
#include "square/executor.h"

namespace square {

// What is added and written to every output before the next: it stays in a core's cache.
inline constexpr std::size_t kFanOutTileBytes = std::size_t{256} << 10U;
// What a payload thread does before other work has its turn.
inline constexpr std::size_t kFanOutRangeBytes = 4 * kFanOutTileBytes;
// Payload threads that one operation may keep busy.
inline constexpr std::size_t kMaxFanOutThreads = 4;

struct FanOut {
  // All as long as the first output. A single one of a group of one is copied.
  std::vector<const std::byte*> inputs;
  std::vector<std::span<std::byte>> outputs;
  Reduction reduction;
  std::uint32_t group_size = 1;
};

// Writes the sum of the inputs to every output, each of which may be an input's own place, then
// runs `done` once: on a payload thread, or before it returns if there is little to write. Cut into ranges
// for several payload threads; every element is added in the order of the inputs, so the bits do not depend
// on the cut. The memory must live until then.
void fan_out(Executor& executor, FanOut job, std::function<void()> done);

}  // namespace square
