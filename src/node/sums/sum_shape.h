// What a sum is about, and what every frame of it says.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "node/landing/landing.h"
#include "node/messages/call_description.h"
#include "square/frame.h"
#include "square/reduction.h"
#include "square/status.h"

namespace square {

// All nodes must agree on it.
struct SumShape {
  std::uint64_t total_bytes = 0;
  std::uint32_t block_bytes = 0;
  Reduction reduction;
  Epoch layout{0};  // see FrameHeader
  friend bool operator==(const SumShape&, const SumShape&) = default;

  [[nodiscard]] std::size_t block_count() const {
    return std::max<std::size_t>(1, (total_bytes + block_bytes - 1) / block_bytes);
  }
  [[nodiscard]] std::size_t offset_of(std::size_t block) const { return block * block_bytes; }
  // The last block of a sum may be shorter, that of an empty one has nothing.
  [[nodiscard]] std::size_t bytes_of(std::size_t block) const;
  [[nodiscard]] BlockShape blocks() const { return {total_bytes, block_bytes, layout}; }

  // As members are told of it.
  [[nodiscard]] CallDescription description() const { return {{}, reduction, total_bytes, 0, {}}; }
  // Another neighbour's shape: does it add what is added here? Errors: INVALID_ARGUMENT.
  [[nodiscard]] Status check_same(const SumShape& other) const;
  // Errors: that, and DATA_LOSS for a block that is none of this sum's.
  [[nodiscard]] Status check_block(const FrameHeader& header, std::size_t payload_bytes) const;
};

// A shape as a frame's header tells it. Errors: DATA_LOSS or INVALID_ARGUMENT for one that nobody
// could add: its sizes are checked before anything is allocated.
SumShape shape_of(const FrameHeader& header);
Status check(const SumShape& shape);

// Beginnings of one sum, from the oldest to the newest: under another cut of the buffer, by the root's
// will, under another plan. Parts of different ones never meet.
struct SumAge {
  Epoch layout{0};
  std::uint16_t generation = 0;
  Epoch epoch{0};
  friend auto operator<=>(const SumAge&, const SumAge&) = default;
};
SumAge age_of(const FrameHeader& header);

// What every frame of a sum says of it.
struct SumLabel {
  SessionId session;
  OperationId operation;
  std::uint32_t incarnation = 0;  // of the process that says it
  std::uint16_t call = 0;         // see GroupCall
  SumShape shape;
  std::uint16_t generation = 0;

  [[nodiscard]] FrameHeader header(FrameType type, const StreamKey& stream) const;
  // Of a block in this try of it.
  [[nodiscard]] FrameHeader block_header(const StreamKey& stream, std::size_t block,
                                         std::uint16_t retry) const;
  [[nodiscard]] SumAge age(Epoch epoch) const { return {shape.layout, generation, epoch}; }
};

}  // namespace square
