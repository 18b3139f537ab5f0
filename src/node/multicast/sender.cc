#include "node/multicast/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"

namespace square {

Sender::Sender(NodeContext& node, Links& links, std::shared_ptr<const InstalledCollective> plan,
               const PlanSession& session, Cargo cargo, std::function<void()> on_done)
    : node_(node),
      links_(links),
      plan_(std::move(plan)),
      session_(session.id),
      cargo_(std::move(cargo)),
      on_done_(std::move(on_done)) {
  block_bytes_ =
      cargo_.sums ? cargo_.sums->block_bytes : plan_->block_bytes(session_, cargo_.data.size_bytes());
  // Also an operation of no bytes tells its destinations so: with one empty block.
  block_count_ = std::max<std::size_t>(1, (cargo_.data.size_bytes() + block_bytes_ - 1) / block_bytes_);
  is_again_.resize(block_count_);
  taken_.resize(block_count_);
  last_.resize(block_count_);
  carried_at_.resize(block_count_);
  for (const NodeId member : session.members) {
    if (member != session.root)
      destinations_.push_back({member, BlockSet(block_count_), false, true, {}, {}, {}});
  }
  waiting_ = destinations_.size();
  open_streams();
}

Sender::~Sender() {
  node_.executor.cancel(probe_timer_);
  node_.executor.cancel(look_timer_);
  for (const auto& [peer, link] : links_) link->drop_operation(session_, cargo_.operation);
}

void Sender::open_streams() {
  streams_.clear();
  for (const LocalStream* local : plan_->streams_of(session_)) {
    Stream stream{local, {}, 1, {}, {}};
    stream.least_patience = std::max(kMinSilentTime, stream.slow_delivery(block_bytes_));
    stream.patience = stream.least_patience;
    for (const std::string& child : local->children) {
      stream.hops.push_back(links_.at(child)->find(local->key));
      stream.losses += stream.hops.back()->losses();
    }
    streams_.push_back(std::move(stream));
  }
  for (Destination& destination : destinations_) {
    destination.seen.assign(streams_.size(), 0);
    destination.checked.assign(streams_.size(), 0);
  }
  arm_probe();
  look_later();
}

// What is under way may arrive until then; what has not left yet never will.
void Sender::leave_streams(TimePoint carried_at) {
  for (const Stream& stream : streams_) {
    for (const Assignment& assignment : stream.in_flight) {
      carried_at_[assignment.block] = carried_at;
      const auto waits = [&](const auto& hop) {
        return hop->is_queued(cargo_.operation, assignment.sequence);
      };
      if (is_newest(stream, assignment) && std::ranges::any_of(stream.hops, waits))
        send_again(assignment.block);
    }
  }
}

void Sender::migrate(std::shared_ptr<const InstalledCollective> plan) {
  const Duration carried = sending::time_under_way(streams_, block_bytes_);
  const TimePoint carried_at = node_.clock.now() + std::clamp(carried, kMinProbeWait, kMaxProbeWait);
  leave_streams(carried_at);
  for (const auto& [peer, link] : links_) link->drop_operation(session_, cargo_.operation);
  plan_ = std::move(plan);
  std::ranges::fill(last_, LastAssignment{});
  open_streams();
  // What has arrived is known by then, where the old streams do not let it be said.
  for (Stream& stream : streams_) probe(stream);
  node_.executor.post_at(carried_at, life_.bind([this] {
    const TimePoint now = node_.clock.now();
    for (std::size_t block = 0; block < block_count_ && !is_planted(Bug::kMoveLosesBlocks); ++block) {
      const bool is_lost = taken_[block] && last_[block].sequence == 0 && carried_at_[block] <= now;
      if (is_lost && !everyone_has(block)) send_again(block);
    }
    fill();
  }));
}

std::size_t Sender::unassigned() const { return again_.size() + (block_count_ - next_block_); }

bool Sender::all_refuse() const {
  return std::ranges::all_of(destinations_, [](const Destination& d) { return d.done || !d.accepting; });
}

// Would the faster streams be through with all that is left before this one has delivered
// one more block? Then that block would hold up the end of the operation.
bool Sender::is_too_slow(const Stream& stream) const {
  const TimePoint now = node_.clock.now();
  double faster_bps = 0;
  const LocalStream* fastest = nullptr;
  for (const Stream& other : streams_) {
    if (other.local->rate_bps <= stream.local->rate_bps) continue;
    if (!other.is_usable() || now - other.last_assignment > kPassOverTime)
      continue;  // no longer moving, or never did
    faster_bps += other.local->rate_bps;
    if (fastest == nullptr || other.local->rate_bps > fastest->rate_bps) fastest = other.local;
  }
  if (fastest == nullptr) return false;
  const double bits = static_cast<double>(block_bytes_) * kBitsPerByte;
  const double own = (static_cast<double>(stream.queued_blocks()) + sending::delivery_links(*stream.local)) *
                     bits / stream.local->rate_bps;
  const double others = static_cast<double>(unassigned()) * bits / faster_bps +
                        sending::delivery_links(*fastest) * bits / fastest->rate_bps;
  return own > others;
}

Sender::Stream* Sender::choose_stream() {
  Stream* best = nullptr;
  double best_wait = 0;
  for (Stream& stream : streams_) {
    if (!stream.has_room()) {
      for (const auto& hop : stream.hops) hop->want_room();
      continue;
    }
    if (stream.is_silent || is_too_slow(stream)) continue;
    const double wait =
        static_cast<double>(stream.queued_blocks() + 1) * stream.seconds_per_block(block_bytes_);
    if (best == nullptr || wait < best_wait) {
      best = &stream;
      best_wait = wait;
    }
  }
  return best;
}

bool Sender::everyone_has(std::size_t block) const {
  return std::ranges::all_of(destinations_,
                             [&](const Destination& d) { return d.done || d.have.contains(block); });
}

bool Sender::take_block(std::size_t& block) {
  while (!again_.empty()) {
    block = again_.front();
    again_.pop_front();
    is_again_[block] = false;
    if (everyone_has(block)) continue;
    return true;
  }
  std::size_t slowest = block_count_;
  for (const Destination& d : destinations_) {
    if (!d.done) slowest = std::min(slowest, d.have.first_missing());
  }
  if (cargo_.sums && ready_.empty()) return false;
  const std::size_t next = cargo_.sums ? ready_.front() : next_block_;
  if (next >= block_count_ || next - std::min(next, slowest) >= kMaxSpreadBlocks) return false;
  if (cargo_.sums) ready_.pop_front();
  block = next;
  taken_[block] = true;
  ++next_block_;
  return true;
}

void Sender::fill() {
  find_lost_links();
  while (!is_done() && !all_refuse()) {
    Stream* stream = choose_stream();
    if (stream == nullptr) break;
    const std::size_t taken = next_block_;
    if (std::size_t block = 0; take_block(block)) {
      if (next_block_ == taken) node_.add_resent(session_, stream->local->children);
      assign(*stream, block);
    } else if (unassigned() != 0 || !steal_for(*stream)) {
      break;
    }
  }
}

// Near the end: a block that still waits on a slower stream moves to this one.
bool Sender::steal_for(Stream& faster) {
  if (faster.queued_blocks() > 0) return false;
  for (Stream& slower : streams_) {
    if (slower.local->rate_bps >= faster.local->rate_bps || slower.in_flight.empty()) continue;
    const Assignment last = slower.in_flight.back();
    const auto waits = [&](const auto& hop) { return hop->is_queued(cargo_.operation, last.sequence); };
    if (!std::ranges::all_of(slower.hops, waits)) continue;
    for (const auto& hop : slower.hops) hop->retract(cargo_.operation, last.sequence);
    slower.in_flight.pop_back();
    assign(faster, last.block);
    return true;
  }
  return false;
}

FrameHeader Sender::header_for(const Stream& stream) const {
  FrameHeader header;
  set_stream(header, stream.local->key);
  header.operation = cargo_.operation;
  header.incarnation = node_.options.incarnation;
  header.call = to_bits(cargo_.call);
  header.total_bytes = cargo_.data.size_bytes();
  header.block_bytes = static_cast<std::uint32_t>(block_bytes_);
  if (cargo_.sums) header.layout = cargo_.sums->layout;
  return header;
}

void Sender::assign(Stream& stream, std::size_t block) {
  const std::size_t offset = block * block_bytes_;
  Frame frame{header_for(stream),
              cargo_.data.range(offset, std::min(block_bytes_, cargo_.data.size_bytes() - offset))};
  if (stream.hops.size() > 1) frame.payload.remember_checksum();
  frame.header.type = FrameType::kBlock;
  frame.header.offset_bytes = offset;
  frame.header.stream_sequence = stream.next_sequence++;
  if (stream.in_flight.empty()) stream.moved_at = node_.clock.now();
  stream.in_flight.push_back({frame.header.stream_sequence, block, node_.clock.now()});
  last_[block] = {index_of(stream), frame.header.stream_sequence};
  stream.last_assignment = node_.clock.now();
  send_on(stream, frame);
}

void Sender::send_on(Stream& stream, const Frame& frame) {
  for (const auto& hop : stream.hops) hop->enqueue(frame, nullptr);
}

void Sender::arm_probe() {
  node_.executor.cancel(probe_timer_);
  probe_timer_ = node_.executor.post_at(node_.clock.now() + probe_wait_, life_.bind([this] { probe(); }));
}

// A time of its own: news of one stream say nothing of another. Where all goes one way there is no other.
void Sender::look_later() {
  node_.executor.cancel(look_timer_);
  if (streams_.size() < 2) return;
  look_at_ = node_.clock.now() + kMinProbeWait;
  look_timer_ = node_.executor.post_at(look_at_, life_.bind([this] {
    find_silent_streams();
    fill();
    look_later();
  }));
}

void Sender::hurry() {
  if (is_done() || probe_wait_ == kMinProbeWait) return;
  probe_wait_ = kMinProbeWait;
  arm_probe();
}

void Sender::probe() {
  fill();
  if (is_done()) return;
  for (Stream& stream : streams_) probe(stream);
  probe_wait_ = std::min(2 * probe_wait_, kMaxProbeWait);
  arm_probe();
}

void Sender::probe(Stream& stream) {
  Frame frame{header_for(stream), {}};
  frame.header.type = FrameType::kProbe;
  frame.header.stream_sequence = stream.next_sequence - 1;
  send_on(stream, frame);
  stream.probed_at = node_.clock.now();
}

void Sender::on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) {
  const auto found = std::ranges::find(destinations_, ack.destination, &Destination::node);
  if (found == destinations_.end() || found->done) return;
  if (ack.first_missing > block_count_ || ack.bits.size() > block_count_ - ack.first_missing) return;
  found->have.insert_all_below(ack.first_missing);
  for (std::size_t i = 0; i < ack.bits.size(); ++i) {
    if (ack.bits[i]) found->have.insert(ack.first_missing + i);
  }
  found->accepting = ack.accepting;
  found->heard_at = node_.clock.now();
  probe_wait_ = kMinProbeWait;
  arm_probe();
  if (ack.done || is_planted(Bug::kDoneAtFirstWord)) {
    found->done = true;
    --waiting_;
    if (is_done()) {
      node_.executor.cancel(probe_timer_);
      node_.executor.cancel(look_timer_);
      return on_done_();  // may destroy this
    }
  }
  for (const auto& [stream, sequence] : ack.seen) {
    if (header.epoch != plan_->epoch() || stream.index() >= streams_.size()) continue;
    const std::uint64_t sent = streams_[stream.index()].next_sequence - 1;
    std::uint64_t& seen = found->seen[stream.index()];
    seen = std::max(seen, std::min(sequence, sent));
  }
  find_losses(*found);
  fill();
}

void Sender::find_losses(Destination& destination) {
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    if (!destination.accepting && !destination.done) break;
    for (const Assignment& assignment : streams_[stream].in_flight) {
      if (assignment.sequence > destination.seen[stream]) break;
      if (assignment.sequence <= destination.checked[stream] || destination.done) continue;
      const bool is_lost =
          is_newest(streams_[stream], assignment) && !destination.have.contains(assignment.block);
      if (is_lost && !is_planted(Bug::kLossesNotFound)) send_again(assignment.block);
    }
    destination.checked[stream] = std::max(destination.checked[stream], destination.seen[stream]);
    forget_settled(stream);
  }
}

void Sender::find_lost_links() {
  for (Stream& stream : streams_) {
    std::uint64_t losses = 0;
    for (const auto& hop : stream.hops) losses += hop->losses();
    if (std::exchange(stream.losses, losses) == losses) continue;
    send_again(stream);
  }
}

// Whether others go on while nothing of what is under way on the stream gets anywhere. One with nothing to do
// is as good where every destination was heard since.
bool Sender::do_others_move(const Stream& stream) const {
  const TimePoint now = node_.clock.now();
  const TimePoint since = stream.in_flight.front().at;
  const bool all_speak =
      std::ranges::all_of(destinations_, [&](const auto& d) { return d.done || d.heard_at > since; });
  return std::ranges::any_of(streams_, [&](const Stream& other) {
    if (&other == &stream || !other.is_usable()) return false;
    if (other.in_flight.empty()) return all_speak;
    return other.settled_at > since && now - other.settled_at < other.patience / 2;
  });
}

void Sender::find_silent_streams() {
  const TimePoint now = node_.clock.now();
  const bool waits_for_calls =
      std::ranges::any_of(destinations_, [](const Destination& d) { return !d.done && !d.accepting; });
  // After a late look, what was said meanwhile is still to be heard.
  const bool judges = !waits_for_calls && now <= look_at_ + kMinProbeWait;
  for (Stream& stream : streams_) {
    if (!judges) stream.moved_at = now;
    if (stream.is_silent && now - stream.probed_at >= kMaxProbeWait) probe(stream);
    if (stream.in_flight.empty() || now - stream.moved_at < stream.patience) continue;
    if (!do_others_move(stream)) continue;
    stream.is_silent = true;
    stream.silent_from = stream.next_sequence - 1;
    stream.patience = std::max(stream.least_patience, std::min(2 * stream.patience, kMaxSilentTime));
    send_again(stream);
  }
}

// What is under way on the stream.
void Sender::send_again(Stream& stream) {
  for (const Assignment& assignment : std::exchange(stream.in_flight, {})) {
    if (is_newest(stream, assignment) && !everyone_has(assignment.block)) send_again(assignment.block);
  }
}

bool Sender::is_newest(const Stream& stream, const Assignment& assignment) const {
  const LastAssignment& last = last_[assignment.block];
  return last.stream == index_of(stream) && last.sequence == assignment.sequence;
}

void Sender::send_again(std::size_t block) {
  if (is_again_[block]) return;
  is_again_[block] = true;
  again_.push_back(block);
}

void Sender::forget_settled(std::size_t stream) {
  std::uint64_t settled = streams_[stream].next_sequence;
  for (const Destination& d : destinations_) {
    if (!d.done) settled = std::min(settled, d.checked[stream]);
  }
  const TimePoint now = node_.clock.now();
  Stream& moved = streams_[stream];
  moved.is_silent = moved.is_silent && settled < moved.silent_from;
  auto& in_flight = moved.in_flight;
  while (!in_flight.empty() && in_flight.front().sequence <= settled) {
    moved.moved_at = moved.settled_at = now;
    moved.patience =
        std::max(moved.least_patience, std::min(2 * (now - in_flight.front().at), kMaxSilentTime));
    in_flight.pop_front();
  }
}

std::string Sender::describe_missing() const {
  std::string text;
  for (const Destination& d : destinations_) {
    if (d.done) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("\"{}\" ({} of {} blocks{})", plan_->name_of(d.node), d.have.count(), d.have.size(),
                        d.accepting ? "" : ", not called yet");
  }
  return text;
}

}  // namespace square
