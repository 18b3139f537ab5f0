#include "coding/compression/int8_blocks.h"

#include <algorithm>

#include "base/check.h"

namespace square::compression {
namespace {

void check_sizes(std::size_t elements, std::size_t encoded, Int8Layout layout) {
  SQUARE_CHECK(elements == layout.count * sizeof(float) && encoded == layout.encoded_bytes(),
               "sizes of a buffer of int8 blocks");
}

}  // namespace

Loss encode_int8(std::span<std::byte> encoded, std::span<const std::byte> elements, Int8Layout layout) {
  check_sizes(elements.size(), encoded.size(), layout);
  return kernels().to_int8(encoded.data(), encoded.data() + layout.scale_bytes(), elements.data(),
                           layout.count, layout.block);
}

void decode_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout) {
  check_sizes(elements.size(), encoded.size(), layout);
  kernels().from_int8(elements.data(), encoded.data(), encoded.data() + layout.scale_bytes(), layout.count,
                      layout.block);
}

void add_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout) {
  check_sizes(elements.size(), encoded.size(), layout);
  kernels().add_int8(elements.data(), encoded.data(), encoded.data() + layout.scale_bytes(), layout.count,
                     layout.block);
}

void subtract_int8(std::span<std::byte> elements, std::span<const std::byte> encoded, Int8Layout layout) {
  check_sizes(elements.size(), encoded.size(), layout);
  kernels().subtract_int8(elements.data(), encoded.data(), encoded.data() + layout.scale_bytes(),
                          layout.count, layout.block);
}

Shard shard_of(Int8Layout layout, std::size_t shards, std::size_t index) {
  const std::size_t blocks = layout.blocks();
  // The first `blocks % shards` have one more.
  const auto begin = [&](std::size_t shard) {
    const std::size_t block = blocks / shards * shard + std::min(shard, blocks % shards);
    return std::min(block * layout.block, layout.count);
  };
  return {begin(index), begin(index + 1) - begin(index)};
}

}  // namespace square::compression
