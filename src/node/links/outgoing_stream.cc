#include "node/links/outgoing_stream.h"

#include <algorithm>
#include <utility>

#include "node/links/outgoing_link.h"

namespace square {
namespace {

bool is_block(const Frame& frame) { return frame.header.type == FrameType::kBlock; }
bool is_probe(const Frame& frame) { return frame.header.type == FrameType::kProbe; }

// Every operation counts its blocks on a stream from 1.
bool is_same_block(const Frame& frame, OperationId operation, std::uint64_t stream_sequence) {
  return is_block(frame) && frame.header.operation == operation &&
         frame.header.stream_sequence == stream_sequence;
}

}  // namespace

OutgoingStream::OutgoingStream(OutgoingLink& link, std::shared_ptr<const InstalledCollective> plan,
                               const LocalStream& stream, std::size_t child, FlowId flow)
    : link_(link),
      plan_(std::move(plan)),
      local_(stream),
      child_(child),
      tally_(link.node().traffic.session(stream.key.session)),
      flow_(flow) {}

void OutgoingStream::enqueue(Frame frame, std::shared_ptr<void> guard) {
  if (is_closed_ || link_.has_departed()) return;
  const bool repeats = is_probe(frame) && !queue_.empty() && is_probe(queue_.back().frame) &&
                       queue_.back().frame.header.operation == frame.header.operation;
  if (repeats) queue_.pop_back();
  if (!is_block(frame) && queue_.size() - blocks_ >= kMaxQueuedMessages) return;
  if (is_block(frame)) ++blocks_;
  queue_.push_back({std::move(frame), std::move(guard)});
  on_change();
}

bool OutgoingStream::retract(OperationId operation, std::uint64_t stream_sequence) {
  const auto item = std::ranges::find_if(
      queue_, [&](const Item& queued) { return is_same_block(queued.frame, operation, stream_sequence); });
  if (item == queue_.end()) return false;
  queue_.erase(item);
  --blocks_;
  on_change();
  return true;
}

bool OutgoingStream::is_queued(OperationId operation, std::uint64_t stream_sequence) const {
  return std::ranges::any_of(
      queue_, [&](const Item& item) { return is_same_block(item.frame, operation, stream_sequence); });
}

void OutgoingStream::drop(OperationId operation) {
  const std::size_t dropped =
      std::erase_if(queue_, [&](const Item& item) { return item.frame.header.operation == operation; });
  if (dropped == 0) return;
  blocks_ = static_cast<std::size_t>(
      std::ranges::count_if(queue_, [](const Item& item) { return is_block(item.frame); }));
  on_change();
}

bool OutgoingStream::is_usable() const {
  return !is_closed_ && (link_.has_departed() || (link_.is_up() && !link_.is_suspected()));
}

bool OutgoingStream::has_room() const {
  if (link_.has_departed()) return is_usable();
  return is_usable() && blocks_ < kSourceQueueBlocks && sent_ + blocks_ < credit_limit_;
}

void OutgoingStream::want_room() {
  is_wanted_ = true;
  if (lacks_credit()) ask_later();
}

std::size_t OutgoingStream::queued_bytes() const {
  std::size_t bytes = 0;
  for (const Item& item : queue_) bytes += item.frame.payload.size_bytes();
  return bytes;
}

bool OutgoingStream::can_send() const {
  return link_.is_up() && !queue_.empty() && (!is_block(head()) || sent_ < credit_limit_);
}

OutgoingStream::Item OutgoingStream::take() {
  Item item = std::move(queue_.front());
  queue_.pop_front();
  if (is_block(item.frame)) {
    --blocks_;
    item.frame.header.hop_sequence = ++sent_;
    last_block_at_ = link_.node().clock.now();
    tally_->on_sent(item.frame.payload.size_bytes());
  }
  if (lacks_credit()) ask_later();
  return item;
}

void OutgoingStream::on_change() {
  link_.on_change(*this);
  if (lacks_credit()) ask_later();
}

void OutgoingStream::on_up() {
  sent_ = 0;
  credit_limit_ = 0;
  credit_wait_ = kMinCreditWait;
  is_asking_ = false;
  on_change();
}

void OutgoingStream::on_down() {
  ++losses_;
  queue_.clear();
  blocks_ = 0;
  on_change();
}

// What a sum adds waits: its parts have no other way, and its root asks who has them.
void OutgoingStream::on_suspected() {
  if (local_.kind == SessionKind::kReduce) return;
  ++losses_;
  std::erase_if(queue_, [](const Item& item) { return is_block(item.frame); });
  blocks_ = 0;
  on_change();
}

void OutgoingStream::on_credit(std::uint64_t limit) {
  if (limit <= credit_limit_) return;
  credit_limit_ = limit;
  is_wanted_ = false;
  credit_wait_ = kMinCreditWait;
  on_change();
}

void OutgoingStream::close() {
  is_closed_ = true;
  queue_.clear();
  blocks_ = 0;
  link_.node().executor.cancel(credit_timer_);
}

bool OutgoingStream::lacks_credit() const {
  return link_.is_up() && !is_closed_ && sent_ >= credit_limit_ && (is_wanted_ || !queue_.empty());
}

void OutgoingStream::ask_later() {
  if (credit_timer_ != 0 || is_asking_) return;
  const TimePoint now = link_.node().clock.now();
  // Later waits are of the same lack.
  if (credit_wait_ == kMinCreditWait || credit_wait_ == kFirstCreditWait) lacking_since_ = now;
  const TimePoint when = now + credit_wait_;
  credit_timer_ = link_.node().executor.post_at(when, life_.bind([this] {
    credit_timer_ = 0;
    is_asking_ = lacks_credit();
    if (!is_asking_) credit_wait_ = kMinCreditWait;
    if (is_asking_) link_.ask_for_credit(*this);
  }));
}

bool OutgoingStream::request_credit(Frame& request) {
  is_asking_ = false;
  if (!lacks_credit()) return false;
  request.header.type = FrameType::kCreditRequest;
  set_stream(request.header, local_.key);
  request.header.hop_sequence = sent_;
  credit_wait_ = std::min(2 * credit_wait_, kMaxCreditWait);
  ask_later();
  return true;
}

}  // namespace square
