#include "node/links/outgoing_link.h"

#include <algorithm>
#include <utility>

#include "transport/pacing/wire_cost.h"

namespace square {

OutgoingLink::OutgoingLink(NodeContext& node, std::string peer, Pacer& egress, Flush& flush)
    : node_(node), peer_(std::move(peer)), egress_(egress), flush_(flush) {}

OutgoingLink::~OutgoingLink() {
  flush_.forget(*this);
  for (const auto& [key, stream] : streams_) stream->close();
  set_backlogged(false, node_.clock.now());
}

std::shared_ptr<OutgoingStream> OutgoingLink::add_stream(
    const std::shared_ptr<const InstalledCollective>& plan, const LocalStream& stream) {
  const FlowId flow = scheduler_.add_flow(stream.share());
  const auto child = std::ranges::find(stream.children, peer_) - stream.children.begin();
  const auto added =
      std::make_shared<OutgoingStream>(*this, plan, stream, static_cast<std::size_t>(child), flow);
  by_flow_.emplace(flow, added.get());
  streams_.emplace(stream.key, added);
  tally_ = node_.traffic.link(peer_, LinkDirection::kOut);
  return added;
}

void OutgoingLink::remove_stream(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  const FlowId flow = found->second->flow();
  scheduler_.remove_flow(flow);
  by_flow_.erase(flow);
  found->second->close();
  streams_.erase(found);
}

std::shared_ptr<OutgoingStream> OutgoingLink::find(const StreamKey& key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : found->second;
}

void OutgoingLink::enqueue(const StreamKey& key, Frame frame, std::shared_ptr<void> guard) {
  if (const auto stream = find(key)) stream->enqueue(std::move(frame), std::move(guard));
}

void OutgoingLink::on_change(const OutgoingStream& stream) {
  update_head(stream, node_.clock.now());
  flush_.mark(*this);
}

void OutgoingLink::update_head(const OutgoingStream& stream, TimePoint now) {
  scheduler_.set_head(
      stream.flow(),
      stream.can_send() ? std::optional(wire_bits(stream.head().payload.size_bytes())) : std::nullopt, now);
}

void OutgoingLink::send_ahead(Frame frame) {
  const bool is_said_once = frame.header.type == FrameType::kAbort;
  if (!handle_ || urgent_.size() >= (is_said_once ? 2 : 1) * kMaxUrgentFrames) return;
  urgent_.push_back(std::move(frame));
  flush_.mark(*this);
}

void OutgoingLink::ask_for_credit(OutgoingStream& stream) {
  asking_.push_back(stream.key());
  flush_.mark(*this);
}

bool OutgoingLink::send_urgent() {
  Frame frame;
  if (!urgent_.empty()) {
    frame = std::move(urgent_.front());
    urgent_.pop_front();
  } else if (!asking_.empty()) {
    const auto stream = find(asking_.front());
    asking_.pop_front();
    if (!stream || !stream->request_credit(frame)) return true;
  } else {
    return false;
  }
  charge_answer(frame.payload.size_bytes());
  hand_over(std::move(frame), nullptr);
  return true;
}

bool OutgoingLink::may_hand_over() const {
  if (in_transport_.size() >= frames_in_transport(channels_)) return false;
  return in_transport_.size() < 2 * channels_ || bytes_in_transport_ < kMaxBytesInTransport * channels_;
}

void OutgoingLink::send_due() {
  while (handle_ && may_hand_over()) {
    if (send_urgent()) continue;
    const TimePoint now = node_.clock.now();
    const auto flow = scheduler_.pick(now);
    set_backlogged(flow.has_value(), now);
    if (!flow) return;
    // What falls due while the tick's blocks go out waits for the next: else every end of a write would
    // find one more, and each would go alone.
    const TimePoint ready = std::max(pacer_.ready_at(), egress_.ready_at());
    if (ready > tick_before(now, node_.pace_tick)) return wait_until(std::max(ready, now));
    OutgoingStream& stream = *by_flow_.at(*flow);
    transmit(stream, now);
    if (!stream.starts_here()) continue;
    flush_.mark_room(stream.key());
    // Its source may have more: the next choice is not made without it.
    if (stream.is_empty()) return flush_.mark(*this);
  }
}

void OutgoingLink::set_backlogged(bool backlogged, TimePoint now) {
  if (std::exchange(is_backlogged_, backlogged) == backlogged) return;
  for (Pacer* pacer : {&pacer_, &egress_}) {
    if (backlogged) {
      pacer->begin(now);
    } else {
      pacer->end();
    }
  }
}

void OutgoingLink::transmit(OutgoingStream& stream, TimePoint now) {
  OutgoingStream::Item item = stream.take();
  scheduler_.charge(stream.flow(), now);
  const std::size_t bytes = item.frame.payload.size_bytes();
  const double bits = wire_bits(bytes);
  pacer_.charge(bits, now);
  egress_.charge(bits, now);
  if (item.frame.header.type == FrameType::kBlock) {
    ++node_.statistics.blocks_sent;
    node_.statistics.bytes_sent += bytes;
    tally_->on_block(bytes);
  } else {
    tally_->on_other(bits);
  }
  hand_over(std::move(item.frame), std::move(item.guard));
  update_head(stream, now);
}

void OutgoingLink::hand_over(Frame frame, std::shared_ptr<void> guard) {
  const std::size_t bytes = frame.payload.size_bytes();
  in_transport_.push_back({std::move(guard), bytes});
  bytes_in_transport_ += bytes;
  node_.transport.send(*handle_, std::move(frame));
}

void OutgoingLink::charge_answer(std::size_t payload_bytes) { charge_other(wire_bits(payload_bytes)); }

void OutgoingLink::charge_receipt(std::size_t payload_bytes) { charge_other(receipt_bits(payload_bytes)); }

void OutgoingLink::charge_other(double bits) {
  const TimePoint now = node_.clock.now();
  pacer_.charge(bits, now);
  egress_.charge(bits, now);
  tally_->on_other(bits);
}

void OutgoingLink::set_pace(double rate_bps) {
  pacer_.set_rate(rate_bps, node_.clock.now());
  // What waits may go sooner, at this pace or at the node's.
  node_.executor.cancel(std::exchange(pace_timer_, 0));
  flush_.mark(*this);
}

void OutgoingLink::wait_until(TimePoint when) {
  if (pace_timer_ != 0) return;
  pace_timer_ = node_.executor.post_at(tick_after(when, node_.pace_tick), life_.bind([this] {
    pace_timer_ = 0;
    flush_.mark(*this);
  }));
}

void OutgoingLink::drop_operation(SessionId session, OperationId operation) {
  for (const auto& [key, stream] : streams_) {
    if (key.session == session) stream->drop(operation);
  }
}

std::map<SessionId, OutgoingLink::QueueDepth> OutgoingLink::queues() const {
  std::map<SessionId, QueueDepth> queues;
  for (const auto& [key, stream] : streams_) {
    if (stream->is_empty()) continue;
    QueueDepth& depth = queues[key.session];
    depth.blocks += stream->queued_blocks();
    depth.bytes += stream->queued_bytes();
  }
  return queues;
}

void OutgoingLink::on_up(LinkHandle handle) {
  handle_ = handle;
  for (const auto& [key, stream] : streams_) stream->on_up();
}

void OutgoingLink::set_suspected(bool is_suspected) {
  is_suspected_ = is_suspected;
  for (const auto& [key, stream] : streams_) {
    if (!stream->starts_here()) continue;
    if (is_suspected) stream->on_suspected();
    flush_.mark_room(key);
  }
}

void OutgoingLink::on_down() {
  handle_.reset();
  is_suspected_ = false;
  set_backlogged(false, node_.clock.now());
  in_transport_.clear();
  bytes_in_transport_ = 0;
  urgent_.clear();
  asking_.clear();
  drop_queues();
}

void OutgoingLink::drop_queues() {
  for (const auto& [key, stream] : streams_) {
    stream->on_down();
    // What was under way may have another way.
    if (stream->starts_here()) flush_.mark_room(key);
  }
}

void OutgoingLink::set_departed(bool has_departed) {
  if (!std::exchange(has_departed_, has_departed) && has_departed) drop_queues();
}

void OutgoingLink::on_sent() {
  if (!in_transport_.empty()) {
    bytes_in_transport_ -= in_transport_.front().bytes;
    in_transport_.pop_front();
  }
  flush_.mark(*this);
}

void OutgoingLink::on_credit(OutgoingStream& stream, std::uint64_t limit) {
  stream.on_credit(limit);
  if (stream.starts_here()) flush_.mark_room(stream.key());
}

}  // namespace square
