// Frames as gRPC messages, without copying payload.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "square/frame.h"

namespace square::rpc {

// Counts the frames whose payload gRPC may still read. Thread-safe.
class PayloadLedger {
 public:
  void add();
  void remove();
  // Waits until none is left; false if some were after `timeout`.
  bool wait_until_empty(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  std::size_t frames_ = 0;
};

// The message of these frames. Its payload slices show the frames' memory; a frame's owners
// are dropped, on whatever thread, when gRPC has let go of the last of them. Reads the
// payloads once, for their checksums.
grpc::ByteBuffer to_message(std::vector<Frame> frames, const std::shared_ptr<PayloadLedger>& ledger);

// The bytes of a received message, in place. The slices may outlive the transport.
Result<Buffer> from_message(grpc::ByteBuffer& message);

// The payload in memory of its own if it is at most kCopiedPayloadBytes.
Buffer unpinned(Buffer payload);

}  // namespace square::rpc
