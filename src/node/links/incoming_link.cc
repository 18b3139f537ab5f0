#include "node/links/incoming_link.h"

#include <algorithm>
#include <utility>

#include "node/codes/code_adder.h"
#include "node/links/outgoing_link.h"
#include "node/links/tick.h"
#include "node/messages/answers.h"

namespace square {

IncomingLink::IncomingLink(std::shared_ptr<NodeContext> node, std::string peer, Flush& flush)
    : node_(std::move(node)), peer_(std::move(peer)), flush_(flush), police_(node_->clock, node_->executor) {}

IncomingLink::~IncomingLink() {
  flush_.forget(*this);
  // Slots that are still taken outlive the link.
  for (const auto& [key, stream] : streams_) stream->close();
}

IncomingStream& IncomingLink::add_stream(const std::shared_ptr<const InstalledCollective>& plan,
                                         const LocalStream& stream) {
  const auto parent = std::ranges::find(stream.parents, peer_) - stream.parents.begin();
  const auto added =
      std::make_shared<IncomingStream>(node_, *this, plan, stream, static_cast<std::size_t>(parent));
  streams_.emplace(stream.key, added);
  tally_ = node_->traffic.link(peer_, LinkDirection::kIn);
  if (handle_) added->on_up();
  return *added;
}

void IncomingLink::remove_stream(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  found->second->close();
  streams_.erase(found);
}

void IncomingLink::drop_operation(SessionId session, OperationId operation) {
  for (const auto& [key, stream] : streams_) {
    if (key.session != session) continue;
    for (const auto& adder : stream->adders()) adder->drop(operation);
  }
}

IncomingStream* IncomingLink::find(const StreamKey& key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : found->second.get();
}

void IncomingLink::answer(Frame frame) {
  const std::size_t part = frame.header.type == FrameType::kAbort ? 2 : 1;  // it is said once
  const std::size_t bytes = answer_bytes_ + frame.payload.size_bytes();
  if (!handle_ || answers_.size() >= part * kMaxQueuedAnswers || bytes > part * kMaxQueuedAnswerBytes) return;
  answer_bytes_ = bytes;
  const bool may_wait = frame.header.type == FrameType::kAck && is_routine(frame.payload);
  answers_.push_back(std::move(frame));
  speak(may_wait);
}

void IncomingLink::add_credit(IncomingStream& stream) { credits_.push_back(stream.shared_from_this()); }

void IncomingLink::speak(bool may_wait) {
  if (may_wait && (tick_timer_ != 0 || is_marked())) return;
  const TimePoint now = node_->clock.now();
  // Little is told on this link: nothing would come with it, and a wake-up for it is saved.
  if (!may_wait || now >= spoke_at_ + kAnswerTick) {
    spoke_at_ = now;
    return flush_.mark(*this);
  }
  tick_timer_ = node_->executor.post_at(tick_after(now, kAnswerTick), life_.bind([this] {
    tick_timer_ = 0;
    if (answers_.empty() && credits_.empty()) return;
    spoke_at_ = node_->clock.now();
    flush_.mark(*this);
  }));
}

void IncomingLink::count_block(SessionTally& session, std::size_t bytes) {
  ++node_->statistics.blocks_received;
  node_->statistics.bytes_received += bytes;
  tally_->on_block(bytes);
  session.on_received(bytes);
}

std::optional<LinkHandle> IncomingLink::on_up(LinkHandle handle) {
  const auto old = std::exchange(handle_, handle);
  if (old) on_down();
  handle_ = handle;
  for (const auto& [key, stream] : streams_) stream->on_up();
  return old;
}

void IncomingLink::on_down() {
  handle_.reset();
  in_transport_ = 0;
  answers_.clear();
  answer_bytes_ = 0;
  credits_.clear();
  for (const auto& [key, stream] : streams_) stream->on_down();
}

void IncomingLink::on_sent() {
  if (in_transport_ > 0) --in_transport_;
  if (!answers_.empty() || !credits_.empty()) flush_.mark(*this);
}

std::optional<Frame> IncomingLink::next_answer() {
  if (answers_.empty()) return std::nullopt;
  Frame frame = std::move(answers_.front());
  answers_.pop_front();
  answer_bytes_ -= frame.payload.size_bytes();
  return frame;
}

std::optional<Frame> IncomingLink::next_credit() {
  while (!credits_.empty()) {
    const auto stream = std::move(credits_.front());
    credits_.pop_front();
    if (auto credit = stream->take_credit()) return credit;
  }
  return std::nullopt;
}

void IncomingLink::send_due() {
  while (handle_ && in_transport_ < kMaxAnswersInTransport) {
    // In turn, so that many of one kind do not hold up the other.
    std::optional<Frame> next;
    if (std::exchange(is_credit_next_, !is_credit_next_)) {
      next = next_credit();
      if (!next) next = next_answer();
    } else {
      next = next_answer();
      if (!next) next = next_credit();
    }
    if (!next) return;
    send(std::move(*next));
  }
}

void IncomingLink::send(Frame frame) {
  if (way_back_ != nullptr) way_back_->charge_answer(frame.payload.size_bytes());
  ++in_transport_;
  node_->transport.send(*handle_, std::move(frame));
}

}  // namespace square
