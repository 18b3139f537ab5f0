#include "node/links/outgoing_link.h"

#include <algorithm>
#include <utility>

#include "transport/pacing/wire_cost.h"

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

OutgoingLink::OutgoingLink(NodeContext& node, std::string peer, Pacer& egress,
                           std::function<void(const StreamKey&)> on_room)
    : node_(node), peer_(std::move(peer)), egress_(egress), on_room_(std::move(on_room)) {}

OutgoingLink::~OutgoingLink() {
  *alive_ = false;
  set_backlogged(false, node_.clock.now());
}

void OutgoingLink::add_stream(const LocalStream& stream) {
  Stream added;
  added.flow = scheduler_.add_flow(stream.share());
  keys_.emplace(added.flow, stream.key);
  streams_.emplace(stream.key, std::move(added));
}

void OutgoingLink::remove_stream(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  scheduler_.remove_flow(found->second.flow);
  keys_.erase(found->second.flow);
  node_.executor.cancel(found->second.credit_timer);
  streams_.erase(found);
}

void OutgoingLink::enqueue(const StreamKey& key, Frame frame, std::shared_ptr<void> guard) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  const bool repeats = is_probe(frame) && !stream.queue.empty() && is_probe(stream.queue.back().frame) &&
                       stream.queue.back().frame.header.operation == frame.header.operation;
  if (repeats) stream.queue.pop_back();
  if (!is_block(frame) && stream.queue.size() - stream.blocks >= kMaxQueuedMessages) return;
  if (is_block(frame)) ++stream.blocks;
  stream.queue.push_back({std::move(frame), std::move(guard)});
  update_head(key);
  pump();
}

bool OutgoingLink::can_send(const Stream& stream) const {
  return handle_ && !stream.queue.empty() &&
         (!is_block(stream.queue.front().frame) || stream.sent < stream.credit_limit);
}

void OutgoingLink::update_head(const StreamKey& key) {
  Stream& stream = streams_.at(key);
  const bool ready = can_send(stream);
  scheduler_.set_head(
      stream.flow,
      ready ? std::optional(wire_bits(stream.queue.front().frame.payload.size_bytes())) : std::nullopt,
      node_.clock.now());
  if (lacks_credit(stream)) ask_for_credit_later(key);
}

bool OutgoingLink::lacks_credit(const Stream& stream) const {
  return handle_ && stream.sent >= stream.credit_limit && (stream.wanted || !stream.queue.empty());
}

void OutgoingLink::want_room(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  found->second.wanted = true;
  if (lacks_credit(found->second)) ask_for_credit_later(key);
}

void OutgoingLink::pump() {
  while (handle_ && in_transport_.size() < frames_in_transport(channels_)) {
    const TimePoint now = node_.clock.now();
    const auto flow = scheduler_.pick(now);
    set_backlogged(flow.has_value(), now);
    if (!flow) return;
    if (const TimePoint ready = std::max(pacer_.ready_at(), egress_.ready_at()); ready > now)
      return wait_until(ready);
    // A copy: sending may lead to the stream's removal.
    const StreamKey key = keys_.at(*flow);
    transmit(key, now);
    on_room_(key);
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

void OutgoingLink::transmit(const StreamKey& key, TimePoint now) {
  Stream& stream = streams_.at(key);
  Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  scheduler_.charge(stream.flow, now);
  const double bits = wire_bits(item.frame.payload.size_bytes());
  pacer_.charge(bits, now);
  egress_.charge(bits, now);
  if (is_block(item.frame)) {
    --stream.blocks;
    item.frame.header.hop_sequence = ++stream.sent;
    ++node_.statistics.blocks_sent;
    node_.statistics.bytes_sent += item.frame.payload.size_bytes();
    node_.traffic.on_sent(peer_, key.session, item.frame.payload.size_bytes());
  } else {
    node_.traffic.on_other_sent(peer_, bits);
  }
  hand_over(std::move(item.frame), std::move(item.guard));
  update_head(key);
}

void OutgoingLink::hand_over(Frame frame, std::shared_ptr<void> guard) {
  in_transport_.push_back(std::move(guard));
  node_.transport.send(*handle_, std::move(frame));
}

void OutgoingLink::send_now(Frame frame) {
  if (!handle_) return;
  charge_answer(frame.payload.size_bytes());
  hand_over(std::move(frame), nullptr);
}

void OutgoingLink::charge_answer(std::size_t payload_bytes) { charge_other(wire_bits(payload_bytes)); }

void OutgoingLink::charge_receipt(std::size_t payload_bytes) { charge_other(receipt_bits(payload_bytes)); }

void OutgoingLink::charge_other(double bits) {
  const TimePoint now = node_.clock.now();
  pacer_.charge(bits, now);
  egress_.charge(bits, now);
  node_.traffic.on_other_sent(peer_, bits);
}

void OutgoingLink::wait_until(TimePoint when) {
  if (pump_timer_ != 0) return;
  pump_timer_ = node_.executor.post_at(when, [this, alive = alive_] {
    if (!*alive) return;
    pump_timer_ = 0;
    pump();
  });
}

bool OutgoingLink::is_queued(const StreamKey& key, OperationId operation,
                             std::uint64_t stream_sequence) const {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return false;
  return std::ranges::any_of(found->second.queue, [&](const Item& item) {
    return is_same_block(item.frame, operation, stream_sequence);
  });
}

bool OutgoingLink::retract(const StreamKey& key, OperationId operation, std::uint64_t stream_sequence) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return false;
  Stream& stream = found->second;
  const auto item = std::ranges::find_if(stream.queue, [&](const Item& queued) {
    return is_same_block(queued.frame, operation, stream_sequence);
  });
  if (item == stream.queue.end()) return false;
  stream.queue.erase(item);
  --stream.blocks;
  update_head(key);
  return true;
}

void OutgoingLink::drop_operation(SessionId session, OperationId operation) {
  for (auto& [key, stream] : streams_) {
    if (key.session != session) continue;
    std::erase_if(stream.queue, [&](const Item& item) { return item.frame.header.operation == operation; });
    stream.blocks = static_cast<std::size_t>(
        std::ranges::count_if(stream.queue, [](const Item& item) { return is_block(item.frame); }));
    update_head(key);
  }
}

bool OutgoingLink::has_room(const StreamKey& key) const {
  const auto found = streams_.find(key);
  if (!handle_ || found == streams_.end()) return false;
  const Stream& stream = found->second;
  return stream.blocks < kSourceQueueBlocks && stream.sent + stream.blocks < stream.credit_limit;
}

std::map<SessionId, OutgoingLink::QueueDepth> OutgoingLink::queues() const {
  std::map<SessionId, QueueDepth> queues;
  for (const auto& [key, stream] : streams_) {
    if (stream.queue.empty()) continue;
    QueueDepth& depth = queues[key.session];
    depth.blocks += stream.blocks;
    for (const Item& item : stream.queue) depth.bytes += item.frame.payload.size_bytes();
  }
  return queues;
}

std::size_t OutgoingLink::queued_blocks(const StreamKey& key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? 0 : found->second.blocks;
}

void OutgoingLink::on_up(LinkHandle handle) {
  handle_ = handle;
  for (auto& [key, stream] : streams_) {
    stream.sent = 0;
    stream.credit_limit = 0;
    stream.credit_wait = kMinCreditWait;
    update_head(key);
  }
  pump();
}

void OutgoingLink::on_down() {
  handle_.reset();
  set_backlogged(false, node_.clock.now());
  in_transport_.clear();
  for (auto& [key, stream] : streams_) {
    stream.queue.clear();
    stream.blocks = 0;
    update_head(key);
  }
}

void OutgoingLink::on_sent() {
  if (!in_transport_.empty()) in_transport_.pop_front();
  pump();
}

void OutgoingLink::on_credit(const StreamKey& key, std::uint64_t limit) {
  const auto found = streams_.find(key);
  if (found == streams_.end() || limit <= found->second.credit_limit) return;
  found->second.credit_limit = limit;
  found->second.wanted = false;
  found->second.credit_wait = kMinCreditWait;
  update_head(key);
  pump();
  on_room_(key);
}

void OutgoingLink::ask_for_credit_later(const StreamKey& key) {
  Stream& stream = streams_.at(key);
  if (stream.credit_timer != 0) return;
  stream.credit_timer =
      node_.executor.post_at(node_.clock.now() + stream.credit_wait, [this, key, alive = alive_] {
        if (*alive) ask_for_credit(key);
      });
}

void OutgoingLink::ask_for_credit(const StreamKey& key) {
  const auto found = streams_.find(key);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.credit_timer = 0;
  if (!lacks_credit(stream)) return;
  Frame request;
  request.header.type = FrameType::kCreditRequest;
  request.header.epoch = key.epoch;
  request.header.session = key.session;
  request.header.stream = key.stream;
  request.header.hop_sequence = stream.sent;
  send_now(std::move(request));
  stream.credit_wait = std::min(2 * stream.credit_wait, kMaxCreditWait);
  ask_for_credit_later(key);
}

}  // namespace square
