// The unit that travels on a link: a fixed header and, for some types, a payload.
//
// docs/wire.md draws the header. All numbers are little endian. The header carries its
// own checksum and that of the payload, so every hop notices a damaged byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "square/buffer.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

enum class FrameType : std::uint8_t {
  // Tail to head, along a stream:
  kBlock = 1,  // bytes of a tensor
  kProbe = 2,  // "everything before this has been sent": asks for acknowledgements
  // Tail to head, one hop:
  kCreditRequest = 3,  // `hop_sequence` blocks were sent so far: what may follow?
  // Head to tail, one hop:
  kCredit = 4,  // up to `hop_sequence` blocks of the stream may be sent in all
  // Head to tail, passed on up the stream to its root:
  kAck = 5,
  // Both ways, passed on to every member of the operation:
  kAbort = 6,
  // Head to tail, from the root of a reduce down its tree: which blocks to send again, and
  // that the others should say how far they are.
  kRequest = 7,
  // Tail to head, along a stream of a reduce behind its blocks: how far one contributor is.
  kReport = 8,
};

struct FrameHeader {
  FrameType type = FrameType::kBlock;
  // Its source has sealed the block, or says of a probe that it seals them: docs/security.md.
  bool is_sealed = false;
  // Who passes it on or gets it says what it saw of it: square/block_sight.h.
  bool is_audited = false;
  Epoch epoch;
  // Whose plan that is: controllers that know nothing of one another may number plans alike.
  OriginTag origin;
  SessionId session;
  StreamIndex stream;
  OperationId operation;
  // Drawn by the process that is the source, so that one that lost count of its operations
  // is not taken for the one before it.
  std::uint32_t incarnation = 0;
  // Which try of a block the bytes belong to; 0 unless a sum was restarted.
  std::uint32_t attempt = 0;
  // The plan that cuts the buffer of a sum into the sessions' parts, and those into blocks; 0
  // where nothing is added.
  Epoch layout{0};
  // What a sum adds, as the sender sees it: square/reduction.h. 0 where nothing is added.
  std::uint8_t element_type = 0;
  std::uint8_t reduce_op = 0;
  // Which call of its group a member's program made, a GroupCall as bits; 0: not said.
  std::uint16_t call = 0;
  // Position of the payload in the session's bytes of this operation, below 2^48.
  std::uint64_t offset_bytes = 0;
  // The session's bytes of this operation in all, below 2^48, and its block size.
  std::uint64_t total_bytes = 0;
  std::uint32_t block_bytes = 0;
  // Counts blocks on this stream from the root, from 1; relays pass it on unchanged. In an
  // abort of whatever runs: a number that tells one such abort from the others.
  std::uint64_t stream_sequence = 0;
  // Counts blocks of this stream on this hop, from 1.
  std::uint64_t hop_sequence = 0;
  // Counts the frames from tail to head over all channels of a link, from 1; 0 where the
  // link has one channel. The transport's own: nodes leave it alone.
  std::uint64_t link_sequence = 0;

  friend bool operator==(const FrameHeader&, const FrameHeader&) = default;
};

struct Frame {
  FrameHeader header;
  Buffer payload;
};

inline constexpr std::size_t kFrameHeaderBytes = 96;
// The largest payload that any frame may claim: a block, and what sealing adds. Checked before anything is
// kept.
inline constexpr std::size_t kMaxPayloadBytes = (std::size_t{1} << 20U) + 32;
inline constexpr std::size_t kMaxFrameBytes = kFrameHeaderBytes + kMaxPayloadBytes;

// The header of `frame` as it goes on the wire, checksums included.
std::array<std::byte, kFrameHeaderBytes> encode_header(const Frame& frame);

// Takes the first frame off the bytes of a message; the payload shares the message's slices.
// Errors: DATA_LOSS for a wrong length, magic, type or checksum, or a payload past
// kMaxPayloadBytes; then `message` is as it was.
Result<Frame> take_frame(Buffer& message);

}  // namespace square
