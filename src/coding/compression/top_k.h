// The elements with the largest magnitudes, and where they belong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "coding/compression/kernels.h"
#include "square/status.h"

namespace square::compression {

// Indices are uint32.
inline constexpr std::size_t kMostTopKElements = std::numeric_limits<std::uint32_t>::max();

// `fraction` of the elements, rounded up; at least one, where there are any.
std::size_t top_k_count(std::size_t elements, double fraction);
// First `chosen` indices, then as many float32.
inline constexpr std::size_t kTopKBytes = sizeof(std::uint32_t) + sizeof(float);

// Encodes the elements with the largest magnitudes, of those that are equal the ones with the lower indices,
// in the order of their indices; how many, says the size of `encoded`. A NaN is larger than anything, and
// is sent as the NaN 0x7fc00000. Elements are their bytes, 4 each, aligned or not. Preconditions: not more
// than there are, at most kMostTopKElements. Thread-safe.
Loss encode_top_k(std::span<std::byte> encoded, std::span<const std::byte> elements);

// Zero in place of what was encoded, and of what is not finite: what was not sent.
void clear_top_k(std::span<std::byte> elements, std::span<const std::byte> encoded);

// Adds what is encoded to the elements, in float32, in its order. Errors: DATA_LOSS for an index that there
// is not, before anything is added; it may come from anywhere.
Status add_top_k(std::span<std::byte> elements, std::span<const std::byte> encoded);

}  // namespace square::compression
