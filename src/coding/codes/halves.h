// float16 and bfloat16 as codes of floats see them: as float32, so that sums keep digits which they have not.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "square/reduction.h"

namespace square {

bool is_half(ElementType type);
// As float32, exactly. Precondition of both: a half, and whole elements. Any thread.
std::vector<std::byte> widened(ElementType type, std::span<const std::byte> halves);
// Back into `halves`, to the nearest, of two to the even one.
void narrow(ElementType type, std::span<const std::byte> floats, std::span<std::byte> halves);

}  // namespace square
