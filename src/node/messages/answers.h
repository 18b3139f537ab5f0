// The payloads that a node writes itself: acknowledgements and aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "square/buffer.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// A source runs at most this many blocks ahead of the slowest destination, so the bits
// of an acknowledgement are bounded too.
inline constexpr std::size_t kMaxSpreadBlocks = 32'768;
inline constexpr std::size_t kMaxStreams = std::size_t{1}
                                           << 16U;  // of a session, by the width of StreamIndex
inline constexpr std::size_t kMaxAbortTextBytes = 1'024;
// Relays pass answers on unread: longer ones are none.
inline constexpr std::size_t kMaxAcknowledgementBytes = 20 + kMaxSpreadBlocks / 8 + 8 * kMaxStreams;
inline constexpr std::size_t kMaxAbortBytes = 4 + kMaxAbortTextBytes;

// What a destination tells a source about an operation, over all streams of the session
// in one epoch. Of the blocks that were sent on a stream up to the sequence that it has
// seen, those that are not named here did not arrive.
struct Acknowledgement {
  NodeId destination;
  // Every local member has every byte.
  bool done = false;
  // False while the local members have not posted the operation and there is no more
  // room to keep blocks for them: what is missing need not be sent again yet.
  bool accepting = true;
  // A source waits for it: it asked, or may now send again what was refused.
  bool awaited = false;
  // Of late a block was not what the source has sealed.
  bool forged = false;
  // Has all blocks below this one, and those whose bit is set from here on.
  std::uint32_t first_missing = 0;
  std::vector<bool> bits;
  struct Seen {
    StreamIndex stream;
    std::uint64_t sequence = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  std::vector<Seen> seen;
};

Buffer encode_acknowledgement(const Acknowledgement& acknowledgement);
// Errors: DATA_LOSS for a payload that is not one.
Result<Acknowledgement> decode_acknowledgement(const Buffer& payload);

// Whether nobody waits for it: of a destination that has not all, takes what comes, and was not asked.
// False for a payload that is not one.
bool is_routine(const Buffer& acknowledgement);

// The first cause of an operation's failure; its text is cut to kMaxAbortTextBytes.
Buffer encode_abort(const Status& cause);
// Nothing for a payload that is not one. Its text has spaces in place of control characters: it is anybody's.
std::optional<Status> decode_abort(const Buffer& payload);

}  // namespace square
