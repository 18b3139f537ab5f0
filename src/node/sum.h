// The arithmetic of a reduce.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "square/buffer.h"
#include "square/reduction.h"

namespace square {

// One thing that is added: bytes in place, or as they came from a link, in slices that need
// not end where an element does.
struct Operand {
  const std::byte* data = nullptr;  // in place; otherwise `slices`
  const Buffer* slices = nullptr;
};

// Adds the operands, element by element, from the first to the last: so every caller with
// the same operands gets the same bits. `out` may be one of the operands in place. Every
// operand has out.size() bytes, a multiple of the element's. Preconditions: at least one
// operand; reduction.op is not kNone. Integers wrap around. Any thread.
void add(std::span<std::byte> out, const std::vector<Operand>& operands, Reduction reduction);

}  // namespace square
