// The arithmetic of a reduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coding/sum_kernels.h"
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
// the same operands gets the same bits. "Adds" stands for the reduction's operation. An average is
// divided by `divisor`; it is 1 for what is not final yet. `out` may be one of the operands in
// place. Every operand has out.size() bytes, a multiple of the element's. Preconditions: at least
// one operand; check_reduction() is OK. Any thread.
void add(std::span<std::byte> out, const std::vector<Operand>& operands, Reduction reduction,
         std::uint32_t divisor = 1);
// The same by other loops.
void add(std::span<std::byte> out, const std::vector<Operand>& operands, const Arithmetic& arithmetic,
         std::uint32_t divisor);

}  // namespace square
