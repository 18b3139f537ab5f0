#include "node/links/incoming_link.h"

#include <algorithm>

#include "transport/pacing/wire_cost.h"

namespace square {
namespace {

// Credit is announced once this part of the window is free again: fewer small frames.
constexpr std::size_t kGrantFraction = 2;

}  // namespace

IncomingStream::IncomingStream(std::shared_ptr<NodeContext> node, std::shared_ptr<IngressPolice> police,
                               const LocalStream& stream, std::function<void(Frame)> send)
    : node_(std::move(node)),
      police_(std::move(police)),
      share_(stream.share()),
      key_(stream.key),
      window_blocks_(stream.window_blocks),
      send_(std::move(send)) {}

IncomingStream::~IncomingStream() { on_down(); }

void IncomingStream::on_up() {
  on_down();
  is_up_ = true;
  received_ = 0;
  granted_ = 0;
  waiting_ = 0;
  flow_ = police_->add_flow(share_, [this] {
    --waiting_;
    grant(false);
  });
  grant(true);
}

void IncomingStream::on_down() {
  is_up_ = false;
  if (flow_) police_->remove_flow(*flow_);
  flow_.reset();
}

std::shared_ptr<void> IncomingStream::take(std::uint64_t hop_sequence, std::size_t bytes) {
  if (hop_sequence <= received_ || hop_sequence > granted_) return nullptr;
  received_ = hop_sequence;
  ++taken_;
  node_->add_in_transit(key_.session, bytes);
  return {static_cast<void*>(this), [self = shared_from_this(), bytes](void*) { self->release(bytes); }};
}

void IncomingStream::release(std::size_t bytes) {
  --taken_;
  node_->remove_in_transit(key_.session, bytes);
  if (!is_up_) return;
  ++waiting_;
  police_->ask(*flow_, wire_bits(bytes));
}

void IncomingStream::on_credit_request(std::uint64_t sent) {
  received_ = std::max(received_, std::min(sent, granted_));
  grant(true);
}

void IncomingStream::grant(bool always) {
  if (!is_up_) return;
  // Slots still taken from an earlier connection count too.
  const std::uint64_t used = taken_ + waiting_;
  const std::uint64_t limit = received_ + (window_blocks_ - std::min<std::uint64_t>(window_blocks_, used));
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

void IncomingLink::add_stream(const std::shared_ptr<NodeContext>& node, const LocalStream& stream,
                              std::function<void(Frame)> send) {
  if (!police) police = std::make_shared<IngressPolice>(node->clock, node->executor);
  const auto added = std::make_shared<IncomingStream>(node, police, stream, std::move(send));
  streams.emplace(stream.key, added);
  if (handle) added->on_up();
}

}  // namespace square
