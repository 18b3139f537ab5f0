// All-reduce of float32 that sends less than it is given: docs/compression.md.
#pragma once

#include <memory>
#include <span>

#include "collective/composite_calls.h"
#include "collective/group_calls.h"
#include "square/compression.h"

namespace square {

// Of all that compressed operations send: rings have the one before, messages those below.
inline constexpr std::uint32_t kCompressedChannel = Communicator::kMaxTag + 3;

// What one member calls. `residual` is empty where there is no error feedback.
struct CompressedSum {
  std::span<const std::byte> input;
  std::span<std::byte> output;
  Reduction reduction;
  Compression compression;
  std::span<float> residual;
};

// See Communicator. Precondition: the kind is not kNone. Blocks as
// CompositeCalls::start() does.
Result<std::shared_ptr<Work>> compressed_all_reduce(GroupCalls& group, CompositeCalls& calls,
                                                    const CompressedSum& sum, Duration timeout);

}  // namespace square
