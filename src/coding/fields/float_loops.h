// Sums of multiples of blocks of float32.
#pragma once

#include <cstddef>
#include <span>

#include "coding/instruction_set.h"

namespace square {

// `count` elements of `out` become the sum of coefficients[j] times those of in[j], added from the first to
// the last; 0 where there are none. Blocks begin anywhere; `out` overlaps none. All sets give the same bits.
void combine_floats(std::span<const float> coefficients, std::span<const std::byte* const> in, std::byte* out,
                    std::size_t count, InstructionSet set);

}  // namespace square
