#include "node/multicast/sender.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/planted.h"
#include "node/codes/coded_payload.h"
#include "node/multicast/relay_evidence.h"

namespace square {
namespace {

CargoFrames frames_of(NodeContext& node, const InstalledCollective& plan, SessionId session,
                      const Sender::Cargo& cargo) {
  CargoFrames::What what{.operation = cargo.operation,
                         .incarnation = node.options.incarnation,
                         .call = to_bits(cargo.call),
                         .data = cargo.data,
                         .elements = cargo.elements,
                         .session = session,
                         .sealing = cargo.sealing,
                         .auditor = &node.auditor};
  what.block_bytes =
      cargo.sums ? cargo.sums->block_bytes : plan.block_bytes(session, cargo.data.size_bytes());
  if (cargo.sums) what.layout = cargo.sums->layout;
  return CargoFrames(std::move(what));
}

}  // namespace

Sender::Sender(NodeContext& node, Links& links, std::shared_ptr<const InstalledCollective> plan,
               const PlanSession& session, Cargo cargo, std::function<void()> on_done)
    : node_(node),
      links_(links),
      plan_(std::move(plan)),
      session_(session.id),
      cargo_(std::move(cargo)),
      on_done_(std::move(on_done)),
      frames_(frames_of(node_, *plan_, session_, cargo_)),
      block_bytes_(frames_.block_bytes()),
      block_count_(frames_.block_count()) {
  is_again_.resize(block_count_);
  taken_.resize(block_count_);
  last_.resize(block_count_);
  carried_at_.resize(block_count_);
  destinations_ = sending::destinations_of(session, block_count_);
  waiting_ = destinations_.size();
  open_streams();
}

Sender::~Sender() {
  node_.executor.cancel(probe_timer_);
  node_.executor.cancel(look_timer_);
  for (const auto& [peer, link] : links_) link->drop_operation(session_, cargo_.operation);
  node_.backlog.set(session_, cargo_.operation, 0);
  sending::close(streams_);
}

void Sender::open_streams() {
  sending::close(streams_);
  turns_ = {};
  streams_ = sending::streams_from_here(
      *plan_, session_,
      [&](const std::string& child, const StreamKey& key) { return links_.at(child)->find(key); });
  // Sums become ready one by one, in any order: no generations.
  std::erase_if(streams_, [&](const Stream& stream) {
    return stream.code != nullptr && (cargo_.sums || !sending::has_room_for_sums(stream, block_bytes_));
  });
  for (Stream& stream : streams_) {
    stream.least_patience = std::max(kMinSilentTime, stream.slow_delivery(block_bytes_));
    stream.patience = stream.least_patience;
    stream.for_each_hop([&](const auto& hop) { stream.losses += hop->losses(); });
    // Until it has had time to move: else a slow one with room would count for the only one that does.
    stream.last_assignment = stream.room_at = node_.clock.now();
    sending::find_relays(stream, destinations_, *plan_, session_);
  }
  for (Destination& destination : destinations_) destination.begin(streams_.size());
  arm_probe();
  look_later();
}

// What is under way may arrive until then; what has not left yet never will.
void Sender::leave_streams(TimePoint carried_at) {
  for (const Stream& stream : streams_) {
    for (const Assignment& assignment : stream.in_flight) {
      carried_at_[assignment.block] = carried_at;
      const auto has_sent = [&](const sending::Way& way) {
        return way.has_sent(cargo_.operation, assignment.sequence);
      };
      if (is_newest(stream, assignment) && !stream.enough_ways(has_sent)) send_again(assignment.block);
    }
  }
}

// What streams of older plans had under way, and were to have delivered by then.
void Sender::send_what_was_left(TimePoint carried_by) {
  if (is_planted(Bug::kMoveLosesBlocks)) return;
  for (std::size_t block = 0; block < block_count_; ++block) {
    const bool is_left = taken_[block] && last_[block].sequence == 0 && carried_at_[block] <= carried_by;
    if (is_left && !sending::everyone_has(destinations_, block)) send_again(block);
  }
}

void Sender::migrate(std::shared_ptr<const InstalledCollective> plan) {
  left_ = plan_->epoch();
  const Duration carried = sending::time_under_way(streams_, block_bytes_);
  const TimePoint carried_at = node_.clock.now() + std::clamp(carried, kMinProbeWait, kMaxProbeWait);
  leave_streams(carried_at);
  for (const auto& [peer, link] : links_) link->drop_operation(session_, cargo_.operation);
  plan_ = std::move(plan);
  std::ranges::fill(last_, LastAssignment{});
  open_streams();
  // What has arrived is known by then, where the old streams do not let it be said.
  for (Stream& stream : streams_) stream.probe(frames_, node_.clock.now());
  node_.executor.post_at(carried_at, life_.bind([this] {
    send_what_was_left(node_.clock.now());
    fill();
  }));
}

void Sender::let_go(Epoch closed) {
  if (closed != left_) return;
  send_what_was_left(TimePoint::max());
  fill();
}

Sender::Stream* Sender::choose_stream(bool is_again) {
  const TimePoint now = node_.clock.now();
  // What only helps a code out takes new blocks where that does not move.
  const bool do_codes_move = std::ranges::any_of(
      streams_, [&](const Stream& stream) { return stream.code != nullptr && stream.is_moving(now); });
  std::optional<std::size_t> before;  // looked up where somebody has room
  const auto would_hold_up = [&](const Stream& stream) {
    if (!before) before = node_.backlog.before(session_, cargo_.operation);
    return is_too_slow(streams_, stream, {unassigned(), *before, block_bytes_, is_again, now});
  };
  Stream* best = nullptr;
  for (Stream& stream : streams_) {
    if (is_again ? stream.code != nullptr : stream.is_spare && do_codes_move) continue;
    const bool has_room = stream.has_room();
    if (has_room) stream.room_at = now;
    if (!has_room) stream.for_each_hop([](const auto& hop) { hop->want_room(); });
    if (!has_room || stream.is_silent || would_hold_up(stream)) {
      turns_.miss(stream);
    } else if (best == nullptr || Turns::end(stream, block_bytes_) < Turns::end(*best, block_bytes_)) {
      best = &stream;
    }
  }
  return best;
}

bool Sender::take_again(std::size_t& block) {
  while (!again_.empty()) {
    block = again_.front();
    again_.pop_front();
    is_again_[block] = false;
    if (!sending::everyone_has(destinations_, block)) return true;
  }
  return false;
}

bool Sender::take_new(std::size_t& block) {
  const std::size_t slowest = std::min(block_count_, sending::first_missing(destinations_));
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
  if (!sending::all_refuse(destinations_)) put_in_line();
  tell_others();
}

void Sender::tell_others() {
  if (is_done()) sending::close(streams_);
  for (Stream& stream : streams_) stream.tell_under_way(block_bytes_);
  const bool is_awaited = !sending::all_refuse(destinations_);
  node_.backlog.set(session_, cargo_.operation, is_awaited ? unassigned() * block_bytes_ : 0);
}

void Sender::put_in_line() {
  for (Stream& stream : streams_) send_owed(stream);
  while (!is_done()) {
    if (fill_again()) continue;
    Stream* stream = choose_stream(false);
    if (stream == nullptr) break;
    if (std::size_t block = 0; take_new(block)) {
      stream->code != nullptr ? take_generation(*stream, block) : assign(*stream, block);
    } else if (unassigned() != 0 || !steal_for(*stream)) {
      break;
    }
  }
}

// The oldest block that was lost, where there is room for it.
bool Sender::fill_again() {
  if (again_.empty()) return false;
  Stream* stream = choose_stream(true);
  // Where no tree is left a generation that begins with it does.
  const bool is_tree_left =
      std::ranges::any_of(streams_, [](const Stream& one) { return one.code == nullptr && one.is_usable(); });
  if (stream == nullptr && !is_tree_left) stream = choose_stream(false);
  std::size_t block = 0;
  if (stream == nullptr || !take_again(block)) return false;
  node_.add_resent(session_, stream->peers());
  stream->code != nullptr ? send_generation(*stream, block) : assign(*stream, block);
  return true;
}

// The block and those after it, which are taken with it.
void Sender::take_generation(Stream& stream, std::size_t first) {
  next_block_ = std::min(block_count_, first + stream.blocks);
  send_generation(stream, first);
}

// What the last generation lacks is empty.
void Sender::send_generation(Stream& stream, std::size_t first) {
  const std::uint64_t sequence = stream.next_sequence++;
  turns_.take(stream, block_bytes_);
  const TimePoint now = node_.clock.now();
  if (stream.in_flight.empty()) stream.moved_at = now;
  stream.last_assignment = now;
  const std::size_t end = std::min(block_count_, first + stream.blocks);
  for (std::size_t block = first; block < end; ++block) {
    taken_[block] = true;
    stream.in_flight.push_back({sequence, block, now});
    last_[block] = {index_of(stream), sequence};
  }
  const bool are_floats = frames_.can_be_floats(*stream.code, first);
  for (sending::Way& way : stream.ways) way.owed.push_back({sequence, first, are_floats});
  send_owed(stream);
}

void Sender::send_owed(Stream& stream) {
  const auto is_needed = [&](const sending::Owed& owed) {
    return sending::lacks_any(destinations_, owed.first, std::min(block_count_, owed.first + stream.blocks));
  };
  for (sending::Way& way : stream.ways) way.send_owed(is_needed, frames_);
}

// Near the end: a block that still waits on a slower stream moves to this one.
bool Sender::steal_for(Stream& faster) {
  Stream* const slower = sending::slower_that_waits(streams_, faster, cargo_.operation);
  if (slower == nullptr) return false;
  const Assignment last = slower->in_flight.back();
  slower->for_each_hop([&](const auto& hop) { hop->retract(cargo_.operation, last.sequence); });
  slower->in_flight.pop_back();
  assign(faster, last.block);
  return true;
}

void Sender::assign(Stream& stream, std::size_t block) {
  const sending::Way& way = stream.ways.front();
  const std::uint64_t sequence = stream.next_sequence++;
  turns_.take(stream, block_bytes_);
  const Frame frame = frames_.block(*way.local, block, sequence);
  if (stream.in_flight.empty()) stream.moved_at = node_.clock.now();
  stream.in_flight.push_back({sequence, block, node_.clock.now()});
  last_[block] = {index_of(stream), sequence};
  stream.last_assignment = node_.clock.now();
  for (const auto& hop : way.hops) hop->enqueue(frame, nullptr);
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

bool Sender::outlives_losses() const { return sending::outlive_losses(streams_, node_.clock.now()); }

void Sender::hurry() {
  if (is_done() || probe_wait_ == kMinProbeWait) return;
  probe_wait_ = kMinProbeWait;
  arm_probe();
}

void Sender::probe() {
  fill();
  if (is_done()) return;
  const auto last_word =
      sending::last_word_of_departed(destinations_, *plan_, cargo_.operation, node_.departures);
  if (last_word) return on_acknowledgement({}, *last_word);  // may destroy this
  const bool was_answered = probe_wait_ == kMinProbeWait;
  for (Stream* stream : sending::worth_asking(streams_, was_answered))
    stream->probe(frames_, node_.clock.now());
  probe_wait_ = std::min(2 * probe_wait_, kMaxProbeWait);
  arm_probe();
}

void Sender::on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) {
  const auto found = std::ranges::find(destinations_, ack.destination, &Destination::node);
  if (found == destinations_.end() || found->done) return;
  if (ack.first_missing > block_count_ || ack.bits.size() > block_count_ - ack.first_missing) return;
  if (ack.forged) node_.auditor.suspect(session_);
  found->hear(ack, node_.clock.now());
  sending::find_full_relays(streams_, destinations_, node_.clock.now(), node_.lossy);
  probe_wait_ = kMinProbeWait;
  arm_probe();
  if (ack.done || is_planted(Bug::kDoneAtFirstWord)) {
    found->done = true;
    --waiting_;
    if (is_done()) {
      node_.executor.cancel(probe_timer_);
      node_.executor.cancel(look_timer_);
      tell_others();
      return on_done_();  // may destroy this
    }
  }
  for (const Acknowledgement::Seen& seen : ack.seen) {
    if (header.epoch == plan_->epoch())
      sending::note_seen(*found, streams_, *plan_->session(session_), seen, node_.clock.now());
  }
  find_losses(*found);
  fill();
}

void Sender::find_losses(Destination& destination) {
  const auto place = static_cast<std::size_t>(&destination - destinations_.data());
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    if (!destination.accepting && !destination.done) break;
    sending::RelayedBlocks relayed;
    for (const Assignment& assignment : streams_[stream].in_flight) {
      if (assignment.sequence > destination.seen[stream]) break;
      if (assignment.sequence <= destination.checked[stream] || destination.done) continue;
      const bool is_lost =
          is_newest(streams_[stream], assignment) && !destination.have.contains(assignment.block);
      if (is_lost && !is_planted(Bug::kLossesNotFound)) send_again(assignment.block);
      relayed.note(destination, assignment, is_lost);
    }
    relayed.report(streams_[stream], place, node_.lossy);
    destination.checked[stream] = std::max(destination.checked[stream], destination.seen[stream]);
    forget_settled(stream);
  }
}

void Sender::find_lost_links() {
  for (Stream& stream : streams_) {
    std::uint64_t losses = 0;
    stream.for_each_hop([&](const auto& hop) { losses += hop->losses(); });
    if (std::exchange(stream.losses, losses) == losses) continue;
    // With redundancy who lacks something says so.
    if (stream.redundancy() == 0) send_again(stream);
  }
}

void Sender::find_silent_streams() {
  const TimePoint now = node_.clock.now();
  // After a late look, what was said meanwhile is still to be heard.
  const bool judges = !sending::waits_for_calls(destinations_) && now <= look_at_ + kMinProbeWait;
  for (Stream& stream : streams_) {
    if (!judges) stream.moved_at = now;
    if (stream.is_silent && now - stream.probed_at >= kMaxProbeWait) {
      if (judges)
        sending::blame_relays(stream, index_of(stream), destinations_,
                              {stream.silent_from, 0, stream.probed_at}, node_.lossy);
      stream.probe(frames_, now);
    }
    if (stream.in_flight.empty() || now - stream.moved_at < stream.patience) continue;
    if (!sending::do_others_move(streams_, destinations_, stream, now)) continue;
    sending::blame_relays(stream, index_of(stream), destinations_, stream.in_flight.front(), node_.lossy);
    stream.fall_silent();
    send_again(stream);
  }
}

// What is under way on the stream.
void Sender::send_again(Stream& stream) {
  for (const Assignment& assignment : std::exchange(stream.in_flight, {})) {
    if (is_newest(stream, assignment) && !sending::everyone_has(destinations_, assignment.block))
      send_again(assignment.block);
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
  const std::uint64_t settled = sending::settled_on(streams_, stream, destinations_);
  const TimePoint now = node_.clock.now();
  streams_[stream].forget_settled(
      settled, [&](std::size_t block) { return sending::everyone_has(destinations_, block); }, now);
  if (streams_[stream].settled_at == now) sending::note_moves(streams_[stream], destinations_, node_.lossy);
}

std::string Sender::describe_missing() const { return sending::describe_missing(destinations_, *plan_); }

}  // namespace square
