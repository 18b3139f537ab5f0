#include "node/links/incoming_stream.h"

#include <algorithm>
#include <utility>

#include "node/links/incoming_link.h"
#include "transport/pacing/wire_cost.h"

namespace square {
namespace {

// Credit is announced once this part of the window is free again: fewer small frames.
constexpr std::uint64_t kGrantFraction = 2;
// It then waits for others to go with, but not in a window of few blocks, or once most of it is free.
constexpr std::uint64_t kLeastPatientWindow = 8;
constexpr double kUrgentPart = 0.75;

}  // namespace

IncomingStream::IncomingStream(std::shared_ptr<NodeContext> node, IncomingLink& link,
                               std::shared_ptr<const InstalledPlan> plan, const LocalStream& stream,
                               std::size_t parent)
    : node_(std::move(node)),
      link_(link),
      plan_(std::move(plan)),
      local_(stream),
      parent_(parent),
      tally_(node_->traffic.session(stream.key.session)) {}

void IncomingStream::on_up() {
  on_down();
  received_ = 0;
  granted_ = 0;
  announced_ = 0;
  waiting_ = 0;
  flow_ = link_.police().add_flow(local_.share(), [this] {
    --waiting_;
    grant(false);
  });
  grant(true);
}

void IncomingStream::on_down() {
  if (flow_) link_.police().remove_flow(*flow_);
  flow_.reset();
  is_due_ = false;
}

void IncomingStream::close() {
  on_down();
  children_.clear();
}

std::shared_ptr<void> IncomingStream::take(std::uint64_t hop_sequence, std::size_t bytes) {
  if (hop_sequence <= received_ || hop_sequence > granted_) return nullptr;
  received_ = hop_sequence;
  ++taken_;
  node_->add_in_transit(*tally_, bytes);
  return {static_cast<void*>(this), [self = shared_from_this(), bytes](void*) { self->release(bytes); }};
}

void IncomingStream::release(std::size_t bytes) {
  --taken_;
  node_->remove_in_transit(*tally_, bytes);
  if (!flow_) return;
  ++waiting_;
  link_.police().ask(*flow_, wire_bits(bytes));
}

void IncomingStream::on_credit_request(std::uint64_t sent) {
  received_ = std::max(received_, std::min(sent, granted_));
  grant(true);
}

void IncomingStream::grant(bool always) {
  if (!flow_) return;
  const std::uint64_t window = local_.window_blocks;
  const std::uint64_t step = std::max<std::uint64_t>(1, window / kGrantFraction);
  if (!always && limit() < announced_ + step) return;
  granted_ = std::max(granted_, limit());
  const auto urgent = static_cast<std::uint64_t>(kUrgentPart * static_cast<double>(window));
  const bool may_wait = !always && window >= kLeastPatientWindow && granted_ < announced_ + urgent;
  if (!std::exchange(is_due_, true)) link_.add_credit(*this);
  link_.announce_credit(may_wait);
}

std::uint64_t IncomingStream::limit() const {
  const std::uint64_t window = local_.window_blocks;
  // Slots still taken from an earlier connection count too.
  const std::uint64_t used = taken_ + waiting_;
  return received_ + (window - std::min(window, used));
}

std::optional<Frame> IncomingStream::take_credit() {
  if (!std::exchange(is_due_, false)) return std::nullopt;
  granted_ = std::max(granted_, limit());
  announced_ = granted_;
  Frame credit;
  credit.header.type = FrameType::kCredit;
  credit.header.epoch = local_.key.epoch;
  credit.header.session = local_.key.session;
  credit.header.stream = local_.key.stream;
  credit.header.hop_sequence = granted_;
  return credit;
}

}  // namespace square
