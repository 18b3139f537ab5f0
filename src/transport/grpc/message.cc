#include "transport/grpc/message.h"

#include <grpcpp/support/slice.h>

#include <atomic>
#include <utility>
#include <vector>

#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

// What keeps a payload alive while gRPC reads it; freed with its last slice.
struct OutgoingPayload {
  Buffer payload;
  std::atomic<std::size_t> slices;
  std::shared_ptr<PayloadLedger> ledger;
};

// A received message and its slices. The message goes last: gRPC 1.51 crashes where the last
// reference to a slice under a quota is dropped outside of its own calls.
struct Received {
  grpc::ByteBuffer message;
  std::vector<grpc::Slice> slices;
};

void release_slice(void* context) {
  auto* outgoing = static_cast<OutgoingPayload*>(context);
  if (outgoing->slices.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::shared_ptr<PayloadLedger> ledger = std::move(outgoing->ledger);
  delete outgoing;
  ledger->remove();
}

}  // namespace

void PayloadLedger::add() {
  const std::lock_guard lock(mutex_);
  ++frames_;
}

void PayloadLedger::remove() {
  const std::lock_guard lock(mutex_);
  if (--frames_ == 0) empty_.notify_all();
}

bool PayloadLedger::wait_until_empty(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return empty_.wait_for(lock, timeout, [this] { return frames_ == 0; });
}

grpc::ByteBuffer to_message(std::vector<Frame> frames, const std::shared_ptr<PayloadLedger>& ledger) {
  std::vector<grpc::Slice> slices;
  for (Frame& frame : frames) {
    const auto header = encode_header(frame);
    slices.emplace_back(header.data(), header.size());
    if (frame.payload.size_bytes() == 0) continue;
    ledger->add();
    const std::size_t count = frame.payload.slices().size();
    auto* outgoing = new OutgoingPayload{std::move(frame.payload), count, ledger};
    for (const Buffer::Slice& slice : outgoing->payload.slices()) {
      // gRPC takes a non-const pointer that it only reads.
      slices.emplace_back(const_cast<std::byte*>(slice.data), slice.size_bytes, release_slice, outgoing);
    }
  }
  return {slices.data(), slices.size()};
}

Result<Buffer> from_message(grpc::ByteBuffer& message) {
  auto received = std::make_shared<Received>();
  if (const grpc::Status dumped = message.Dump(&received->slices); !dumped.ok()) {
    return data_loss("a message cannot be read: " + dumped.error_message());
  }
  received->message.Swap(&message);
  Buffer bytes;
  for (const grpc::Slice& slice : received->slices) {
    bytes.append({received, reinterpret_cast<const std::byte*>(slice.begin()), slice.size()});
  }
  return bytes;
}

Buffer unpinned(Buffer payload) {
  if (payload.size_bytes() == 0 || payload.size_bytes() > kCopiedPayloadBytes) return payload;
  std::shared_ptr<std::byte[]> own = std::make_shared_for_overwrite<std::byte[]>(payload.size_bytes());
  payload.copy_to(own.get());
  const std::byte* data = own.get();
  return {std::move(own), data, payload.size_bytes()};
}

}  // namespace square::rpc
