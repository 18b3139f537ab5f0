// The bounds and times of the gRPC transport.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "square/frame.h"
#include "square/transport.h"

namespace square::rpc {

// A link to a host that has not answered by then is given up; the node decides whether to try again. Where
// TCP is connected the peer has so long more to shake hands: on a crowded machine that takes seconds, and who
// gives up begins anew.
inline constexpr std::chrono::milliseconds kConnectDeadline{2000};
inline constexpr std::chrono::milliseconds kHandshakeDeadline{3000};

// How many names may be looked up and dialled at once; more are refused, and tried again by the node.
inline constexpr int kMaxNameDials = 16;

// How long stop() waits for payload that gRPC still reads after every link has ended.
inline constexpr std::chrono::milliseconds kReleaseDeadline{5000};

// Frames that wait on one link behind the one being written. A node keeps to
// kMaxFramesInTransport blocks; the rest is room for credit and acknowledgements.
inline constexpr std::size_t kMaxQueuedFrames = 4096;

// Frames that wait are put into one message while it has no more bytes than this: those of small blocks
// that a node has in the transport.
inline constexpr std::size_t kMaxBundleBytes =
    kMaxFramesInTransport * (kFrameHeaderBytes + (std::size_t{8} << 10U));

// Channels that others may have opened to this node, and links of one peer's name: an old
// link may still be closing when the peer dials again.
inline constexpr std::size_t kMaxIncomingChannels = 4096;
inline constexpr std::size_t kMaxLinksPerPeer = 64;

// Unanswered pings that a head keeps.
inline constexpr std::size_t kMaxWaitingPongs = 4;

// Connections that were accepted. One that has not carried an accepted call by the first deadline is closed:
// that is later than whoever dials gives up. Where more than kMaxWaiting have carried none, the second
// deadline holds.
inline constexpr std::size_t kMaxConnections = 2 * kMaxIncomingChannels;
inline constexpr std::size_t kMaxWaiting = 1024;
inline constexpr std::chrono::milliseconds kAdmissionDeadline = kConnectDeadline + kHandshakeDeadline;
inline constexpr std::chrono::milliseconds kCrowdedAdmissionDeadline{750};
// So is one, from either end, that carries none any more for so long: a write that waits in a full socket
// cannot be cancelled, and its payload is let go only then.
inline constexpr std::chrono::milliseconds kPartingDeadline{300};
inline constexpr int kListenBacklog = 1024;

// What is known of a connection between two messages comes from the kernel's counters. In
// the middle of a message no byte may stay away for the transport's silence_deadline, and no more bytes than
// this may come without a whole message: a frame, and whole ones that gRPC has read ahead and
// that a busy thread has not taken yet. gRPC reads ahead as far as its HTTP/2 windows, which
// grow to 16 MiB while memory is plenty.
constexpr std::size_t max_unframed_bytes(std::size_t quota_bytes) {
  return kMaxFrameBytes + std::min(quota_bytes / 4, std::size_t{32} << 20U);
}
// Connections are inspected so often, and so many at a time; less often when all are quiet.
inline constexpr std::chrono::milliseconds kInspectionInterval{20};
inline constexpr std::chrono::milliseconds kQuietInspectionInterval{100};
inline constexpr std::size_t kMaxInspections = 256;
// Incomplete messages of all connections together may take this part of the memory quota;
// beyond it those that completed no message for the longest time are closed.
inline constexpr std::size_t kUnframedQuotaPart = 2;

inline constexpr std::size_t kMaxMetadataBytes = 16384;
// A connection carries one call; one more is answered with an error.
inline constexpr int kMaxStreams = 4;
// What a connection may have received before its call is accepted: a handshake of TLS, and the call.
inline constexpr std::uint64_t kMaxUnacceptedBytes = std::uint64_t{64} << 10U;

// A received payload up to this size is copied into memory of its own. Several small
// blocks share one read buffer of gRPC, and one of them that is held keeps all of it:
// blocks of 8 KiB, every eighth of them held, kept 6 to 8 times their size; copied, 1.2 to 1.5 times.
inline constexpr std::size_t kCopiedPayloadBytes = std::size_t{64} << 10U;

inline constexpr int kWriteBufferBytes = 4 << 20;
// gRPC reads into buffers that it allocates before a byte has come; they grow with what comes, from 8 KiB to
// this much. They begin small: a node has hundreds of connections, and 1 MiB for each, as they come and go,
// is never quite given back (17 nodes grew by 77 MiB over 10,000 groups).
inline constexpr int kMaxReadChunkBytes = 4 << 20;

}  // namespace square::rpc
