// What the root of a reduce and its contributors tell one another.
#pragma once

#include <cstdint>
#include <vector>

#include "node/messages/answers.h"
#include "square/buffer.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// Blocks that one request may name; more are asked for later.
inline constexpr std::size_t kMaxRequestedBlocks = 4'096;
// Streams of a session that a request may speak of.
inline constexpr std::size_t kMaxRequestedStreams = 1U << 16U;
inline constexpr std::size_t kMaxRequestBytes =
    24 + kMaxSpreadBlocks / 8 + kMaxRequestedStreams / 8 + 6 * kMaxRequestedBlocks;
inline constexpr std::size_t kReportBytes = 16;

// From the root, down a stream's tree to every contributor. A sum is lost with any of its
// parts, so its block begins again at all of them, with a higher retry: parts of different
// tries are never added.
struct SumRequest {
  // Counts the requests of one operation in one session, from 1. 0, and not `done`: asks for
  // nothing, but the frame's layout is one that the contributor does not know of.
  std::uint32_t number = 0;
  // The root has every sum: nothing is needed any more.
  bool done = false;
  // Blocks that were done when the sums began, or began again under another plan: all below
  // `first_missing` and those whose bit is set from there on. They are not sent.
  std::uint32_t first_missing = 0;
  std::vector<bool> bits;
  // Streams that take no blocks since the sums began again: nothing came through.
  std::vector<bool> left;
  struct Again {
    std::uint32_t block = 0;
    std::uint16_t retry = 0;
    friend bool operator==(const Again&, const Again&) = default;
  };
  std::vector<Again> again;

  [[nodiscard]] bool tells_layout() const { return number == 0 && !done; }
};

Buffer encode_request(const SumRequest& request);
// Errors: DATA_LOSS for a payload that is not one.
Result<SumRequest> decode_request(const Buffer& payload);

// From a contributor, up a stream behind its blocks: what it sent before has gone ahead.
struct SumReport {
  NodeId contributor;
  // The newest request that it has followed on this stream; 0 for none.
  std::uint32_t number = 0;
  // Its members have called the operation.
  bool has_called = false;
  // It still sends under an older plan: the root tells it to move.
  bool is_behind = false;
  // So many blocks of the stream, in order, have its part.
  std::uint32_t position = 0;
  // A link of its was lost and is back: parts may be lost of which nobody else can tell.
  bool may_have_lost = false;
  friend bool operator==(const SumReport&, const SumReport&) = default;
};

Buffer encode_report(const SumReport& report);
// Errors: DATA_LOSS for a payload that is not one.
Result<SumReport> decode_report(const Buffer& payload);

// An attempt counts the beginnings of all sums, by the root, and the retries of one block.
struct Attempt {
  std::uint16_t generation = 0;
  std::uint16_t retry = 0;
  friend auto operator<=>(const Attempt&, const Attempt&) = default;
};
constexpr std::uint32_t to_wire(Attempt attempt) {
  return std::uint32_t{attempt.generation} << 16U | attempt.retry;
}
constexpr Attempt attempt_from_wire(std::uint32_t wire) {
  return {static_cast<std::uint16_t>(wire >> 16U), static_cast<std::uint16_t>(wire & 0xffffU)};
}

}  // namespace square
