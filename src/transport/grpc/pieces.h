// Large messages over slow connections go in pieces, so that no more waits in a connection than it is to
// hold.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "square/buffer.h"
#include "square/status.h"

namespace square::rpc {

// What a piece has in front: docs/wire.md draws it.
inline constexpr std::size_t kPieceHeaderBytes = 8;

// What is still to be written of one message. Not thread-safe.
class OutgoingPieces {
 public:
  // Precondition: nothing is left of the one before.
  void start(grpc::ByteBuffer message);
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  [[nodiscard]] bool is_empty() const { return size_bytes_ == 0; }
  // The whole message if it has no more than `most_bytes` and none of it has gone; else the next piece of at
  // most so many bytes of it. Precondition: neither is 0.
  grpc::ByteBuffer take(std::size_t most_bytes);
  void drop();

 private:
  std::deque<grpc::Slice> slices_;
  std::size_t size_bytes_ = 0;
  bool is_begun_ = false;
};

// What has come of one message. Not thread-safe.
class IncomingPieces {
 public:
  // The whole message that `arrived` is, or is the last piece of; nothing while more is to come. Errors:
  // DATA_LOSS for pieces that do not fit together, or would be more than a frame.
  Result<std::optional<Buffer>> put(Buffer arrived);

 private:
  // In one place, however small the pieces are: what holds them all would be many times as large.
  std::shared_ptr<std::byte[]> begun_;
  std::size_t begun_bytes_ = 0;
  std::size_t missing_bytes_ = 0;
};

}  // namespace square::rpc
