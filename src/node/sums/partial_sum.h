// A sum that goes on to another node.
#pragma once

#include <cstddef>
#include <vector>

#include "node/sums/waiting_parts.h"
#include "square/reduction.h"

namespace square {

// The inputs of a node's own members at a block's offset, then its parents' parts, in this order, each
// `size_bytes` long. Any thread.
Buffer partial_sum(const std::vector<const std::byte*>& inputs, std::size_t offset_bytes,
                   std::size_t size_bytes, const std::vector<SumPart>& parts, const Reduction& reduction);

}  // namespace square
