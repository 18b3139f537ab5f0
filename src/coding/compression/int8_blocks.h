// Blocks of 8-bit integers with a float32 scale each.
//
// A block's scale is its largest magnitude / 127, at least 2^-126; an element x becomes the code
// round(x / scale), of two nearest the even one, and is decoded as code * scale. So the error of an element
// is at most half a scale. A block with an infinity or a NaN has the scale NaN, and decodes to NaNs.
#pragma once

#include <cstddef>
#include <span>

#include "coding/compression/kernels.h"

namespace square::compression {

// All elements of a buffer in blocks, or some of them: a shard is a range of whole blocks.
struct Int8Layout {
  std::size_t count = 0;  // elements
  std::size_t block = 1;  // elements that share a scale; the last block may be shorter

  [[nodiscard]] std::size_t blocks() const { return (count + block - 1) / block; }
  // First the scales of all blocks, then the codes.
  [[nodiscard]] std::size_t scale_bytes() const { return blocks() * sizeof(float); }
  [[nodiscard]] std::size_t encoded_bytes() const { return scale_bytes() + count; }
};

// Elements as their bytes, 4 each, aligned or not. Precondition of all: sizes are those of the layout.
// Thread-safe.
Loss encode_int8(std::span<std::byte> encoded, std::span<const std::byte> elements, Int8Layout layout);
void decode_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout);
// Adds what is decoded to the elements, in float32.
void add_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout);
// Leaves what was not encoded; 0 where that is not finite.
void subtract_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout);

// Which elements are shard `index` of `shards`, cut between blocks and as evenly as that allows.
struct Shard {
  std::size_t first = 0;
  std::size_t count = 0;
};
Shard shard_of(Int8Layout layout, std::size_t shards, std::size_t index);

}  // namespace square::compression
