#include "node/links/incoming_stream.h"

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "node/links/incoming_link.h"
#include "node/plan/stream_windows.h"
#include "transport/pacing/wire_cost.h"

namespace square {
namespace {

// Credit that is worth a word waits for others to go with, but not once it is more by this factor (in
// windows of two or three blocks it always is), or where a word costs nothing beside the bytes that it is
// about.
constexpr double kUrgentFactor = 1.5;

}  // namespace

IncomingStream::IncomingStream(std::shared_ptr<NodeContext> node, IncomingLink& link,
                               std::shared_ptr<const InstalledCollective> plan, const LocalStream& stream,
                               std::size_t parent)
    : node_(std::move(node)),
      link_(link),
      plan_(std::move(plan)),
      local_(stream),
      parent_(parent),
      tally_(node_->traffic.session(stream.key.session)) {}

void IncomingStream::on_up() {
  on_down();
  if (is_planted(Bug::kCreditOfLastConnection)) return;
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
  adders_.clear();
}

std::shared_ptr<void> IncomingStream::take(std::uint64_t hop_sequence, std::size_t bytes) {
  if (hop_sequence <= received_ || hop_sequence > granted_) return nullptr;
  received_ = hop_sequence;
  ++taken_;
  node_->add_in_transit(*tally_, bytes);
  return {static_cast<void*>(this), [self = shared_from_this(), bytes](void*) { self->release(bytes); }};
}

bool IncomingStream::tells_with_next() const {
  return limit() + 1 >= announced_ + local_.window->credit_blocks;
}

void IncomingStream::release(std::size_t bytes) {
  --taken_;
  node_->remove_in_transit(*tally_, bytes);
  if (!flow_) return;
  ++waiting_;
  freed_bytes_ += bytes;
  link_.police().ask(*flow_, wire_bits(bytes));
}

void IncomingStream::on_credit_request(std::uint64_t sent) {
  received_ = std::max(received_, std::min(sent, granted_));
  grant(true);
}

void IncomingStream::grant(bool always) {
  if (!flow_) return;
  if (!always && limit() < announced_ + local_.window->credit_blocks) return;
  granted_ = std::max(granted_, limit());
  const auto urgent =
      static_cast<std::uint64_t>(kUrgentFactor * static_cast<double>(local_.window->credit_blocks));
  const bool may_wait = !always && granted_ < announced_ + urgent && freed_bytes_ < kCheapCreditBytes;
  if (!std::exchange(is_due_, true)) link_.add_credit(*this);
  link_.speak(may_wait);
}

std::uint64_t IncomingStream::limit() const {
  const std::uint64_t window = local_.window->blocks;
  // Slots still taken from an earlier connection count too.
  const std::uint64_t used = taken_ + waiting_;
  return received_ + (window - std::min(window, used));
}

std::optional<Frame> IncomingStream::take_credit() {
  if (!std::exchange(is_due_, false)) return std::nullopt;
  granted_ = std::max(granted_, limit());
  announced_ = granted_;
  freed_bytes_ = 0;
  Frame credit;
  credit.header.type = FrameType::kCredit;
  set_stream(credit.header, local_.key);
  credit.header.hop_sequence = granted_;
  return credit;
}

}  // namespace square
