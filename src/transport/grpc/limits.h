// The bounds and times of the gRPC transport.
#pragma once

#include <chrono>
#include <cstddef>

namespace square::rpc {

// A link that is not up by then is given up; the node decides whether to try again.
inline constexpr std::chrono::milliseconds kConnectDeadline{2000};

// A silent peer is dead after the sum of the two. gRPC also makes the second the socket's
// TCP_USER_TIMEOUT, and that bounds something else: a write that waits in a full socket
// cannot be cancelled, so its payload is let go only when the connection is given up.
inline constexpr std::chrono::milliseconds kKeepaliveInterval{500};
inline constexpr std::chrono::milliseconds kKeepaliveTimeout{500};

// How long stop() waits for payload that gRPC still reads after every link has ended.
inline constexpr std::chrono::milliseconds kReleaseDeadline{5000};

// Frames that wait on one link behind the one being written. A node keeps to
// kMaxFramesInTransport blocks; the rest is room for credit and acknowledgements.
inline constexpr std::size_t kMaxQueuedFrames = 4096;

// Links that others may have opened to this node.
inline constexpr std::size_t kMaxIncomingLinks = 4096;

inline constexpr std::size_t kMaxMetadataBytes = 16384;

// A received payload up to this size is copied into memory of its own. Several small
// blocks share one read buffer of gRPC, and one of them that is held keeps all of it:
// blocks of 8 KiB, every eighth of them held, kept 6 to 8 times their size; copied, 1.2 to 1.5 times.
inline constexpr std::size_t kCopiedPayloadBytes = std::size_t{64} << 10U;

inline constexpr int kWriteBufferBytes = 4 << 20;
inline constexpr int kReadChunkBytes = 1 << 20;
inline constexpr int kMaxReadChunkBytes = 4 << 20;

}  // namespace square::rpc
