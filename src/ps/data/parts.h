// How a shard crosses a line: in parts, each one message with a head of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "square/reduction.h"
#include "square/status.h"

namespace square::ps {

// Elements of a part, but for the last one of a shard. A multiple of kBlockElements: sums do not depend on
// how parts are cut.
inline constexpr std::size_t kPartElements = std::size_t{1} << 20U;
// Messages of a transfer that are under way at once: enough for a round trip, and a bound on its memory.
inline constexpr std::size_t kPartsUnderWay = 4;

constexpr std::size_t parts_of(std::size_t elements) {
  return (elements + kPartElements - 1) / kPartElements;
}
// Elements of the part with that index.
constexpr std::size_t part_size(std::size_t elements, std::size_t index) {
  const std::size_t first = index * kPartElements;
  return elements - first < kPartElements ? elements - first : kPartElements;
}

// What a part is of: a receiver takes nothing else for it.
struct PartHead {
  std::uint64_t version = 0;  // of a push: that of its base
  std::uint64_t maker = 0;    // of a version; of a push its ticket
  std::uint64_t first = 0;    // element of the model
};
inline constexpr std::size_t kPartHeadBytes = 40;

// What follows the head, in its place, as float32.
std::span<float> payload_of(std::span<std::byte> message);
// Bytes of the message, head included.
std::size_t part_bytes(std::size_t elements, ElementType type);
// Writes the head before a payload that is in its place already, with its checksum (CRC32C).
void seal(std::span<std::byte> message, const PartHead& head);
// Errors: DATA_LOSS for another head, or a checksum that differs; it names what was expected and what came.
Status check_part(std::span<const std::byte> message, const PartHead& expected);

}  // namespace square::ps
