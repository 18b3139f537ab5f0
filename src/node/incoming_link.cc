#include "node/incoming_link.h"

#include <algorithm>

namespace square {
namespace {

// Credit is announced once this part of the window is free again: fewer small frames.
constexpr std::size_t kGrantFraction = 2;

}  // namespace

IncomingStream::IncomingStream(std::shared_ptr<NodeContext> node, StreamKey key, std::size_t window_blocks,
                               std::function<void(Frame)> send)
    : node_(std::move(node)), key_(key), window_blocks_(window_blocks), send_(std::move(send)) {}

void IncomingStream::on_up() {
  is_up_ = true;
  received_ = 0;
  granted_ = 0;
  grant(true);
}

std::shared_ptr<void> IncomingStream::take(std::uint64_t hop_sequence, std::size_t bytes) {
  if (hop_sequence <= received_ || hop_sequence > granted_) return nullptr;
  received_ = hop_sequence;
  ++taken_;
  node_->add_in_transit(bytes);
  return {static_cast<void*>(this), [self = shared_from_this(), bytes](void*) { self->release(bytes); }};
}

void IncomingStream::release(std::size_t bytes) {
  --taken_;
  node_->remove_in_transit(bytes);
  grant(false);
}

void IncomingStream::on_credit_request(std::uint64_t sent) {
  received_ = std::max(received_, std::min(sent, granted_));
  grant(true);
}

void IncomingStream::grant(bool always) {
  if (!is_up_) return;
  // Slots still taken from an earlier connection count too.
  const std::uint64_t limit = received_ + (window_blocks_ - std::min(window_blocks_, taken_));
  const std::uint64_t step = std::max<std::uint64_t>(1, window_blocks_ / kGrantFraction);
  if (!always && limit < granted_ + step) return;
  granted_ = std::max(granted_, limit);
  Frame credit;
  credit.header.type = FrameType::kCredit;
  credit.header.epoch = key_.epoch;
  credit.header.session = key_.session;
  credit.header.stream = key_.stream;
  credit.header.hop_sequence = granted_;
  send_(std::move(credit));
}

}  // namespace square
