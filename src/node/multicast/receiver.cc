#include "node/multicast/receiver.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "node/codes/coded_payload.h"
#include "node/codes/solution.h"
#include "node/links/tick.h"

namespace square {
namespace {

// Blocks that one operation may have in one session: 128 GiB in blocks of 8 KiB. Bounds
// the bitmap that a frame can make this node allocate at 2 MiB.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 24U;

}  // namespace

Status Receiver::check(const Shape& shape) {
  if (shape.block_bytes < kMinBlockBytes || shape.block_bytes > kMaxBlockBytes) {
    return data_loss(fmt::format("a block size of {} bytes is outside {} to {}", shape.block_bytes,
                                 kMinBlockBytes, kMaxBlockBytes));
  }
  if (shape.total_bytes / shape.block_bytes >= kMaxBlocks) {
    return invalid_argument(fmt::format("an operation of {} bytes is too large for blocks of {} bytes",
                                        shape.total_bytes, shape.block_bytes));
  }
  return Status::ok();
}

Receiver::Receiver(std::shared_ptr<NodeContext> node, Place place, Shape shape, Answer answer, Done on_done)
    : node_(std::move(node)),
      place_(place),
      shape_(shape),
      answer_(std::move(answer)),
      on_done_(std::move(on_done)),
      have_(shape.block_count()),
      generations_(shape.block_count()),
      unsealer_(node_, {place.incarnation, place.session, place.operation}, shape) {}

Receiver::~Receiver() {
  close_zone();
  forget_held();
}

void Receiver::close_zone() {
  if (zone_) node_->landing.close(place_.session, place_.operation, zone_);
}

void Receiver::cancel() {
  is_cancelled_ = true;
  close_zone();
  node_->executor.cancel(answer_timer_);
  answer_timer_ = 0;
  forget_held();
}

void Receiver::forget_held() {
  for (const Held& held : held_) node_->remove_held(place_.session, tenant_, held.payload.size_bytes());
  held_.clear();
  generations_.clear();
}

Receiver::Progress& Receiver::progress_of(std::shared_ptr<const LocalStream> stream) {
  const StreamKey key = stream->key;
  return progress_.try_emplace(key, Progress{std::move(stream), 0}).first->second;
}

void Receiver::open(std::vector<std::byte*> destinations) {
  if (is_open_) return;
  destinations_ = std::move(destinations);
  is_open_ = true;
  const auto drained = life_.bind([this] {
    if (is_cancelled_ && is_drained()) on_done_();
  });
  zone_ = std::make_shared<CopyZone>(
      shape_, destinations_, [drained, executor = &node_->executor] { executor->post(drained); },
      unsealer_.opener());
  const bool refused = !accepting_;
  accepting_ = true;
  for (Held& held : held_) {
    node_->remove_held(place_.session, tenant_, held.payload.size_bytes());
    zone_->claim(held.block);
    deliver(held.block, std::move(held.payload), nullptr);
  }
  held_.clear();
  // Before the table knows it, nothing can land in it: what was held is claimed by now.
  if (!is_cancelled_) node_->landing.open(place_.session, place_.operation, zone_);
  solve();
  if (refused) answer_on_every_stream();
}

Status Receiver::on_block(Arrival arrival) {
  const FrameHeader& header = arrival.header();
  if (Shape::of(header) != shape_)
    return unsealer_.refuse(arrival, "two blocks of one operation disagree on its size");
  const LocalStream& stream = *arrival.stream;
  const std::size_t size = arrival.payload_bytes();
  const bool is_sum = stream.coded != nullptr && !stream.block;
  // A generation at the end has blocks that are none of the operation's: they are empty.
  const auto is_there = [&](std::uint64_t offset) { return offset / shape_.block_bytes < have_.size(); };
  const bool is_beyond = stream.coded != nullptr && size == 0 && !is_there(header.offset_bytes) &&
                         is_there(stream.generation_offset(header));
  const bool fits = is_sum
                        ? unsealer_.may_be_sum(header, size, *stream.coded_as(has_floats(header)).code) &&
                              header.offset_bytes % shape_.block_bytes == 0 && is_there(header.offset_bytes)
                        : is_beyond || shape_.fits(header, size);
  if (!fits) {
    return unsealer_.refuse(
        arrival, fmt::format("a block of {} bytes at {} does not fit an operation of {} bytes", size,
                             header.offset_bytes, shape_.total_bytes));
  }
  tenant_ = stream.tenant;
  Progress& progress = progress_of(arrival.shared_stream());
  progress.seen = std::max(progress.seen, header.stream_sequence);
  ++unanswered_;
  if (is_cancelled_) return Status::ok();
  if (is_done()) return Status::ok();  // all was said
  const bool has_room =
      is_sum ? take_sum(arrival) : is_beyond || take_block(header.offset_bytes / shape_.block_bytes, arrival);
  if (stream.coded != nullptr) generations_.pass(stream, header.stream_sequence);
  if (is_done()) return Status::ok();  // all was said
  solve();
  if (is_done()) return Status::ok();
  // The source learns at once that it need not hurry.
  const bool refuses_now = !has_room && std::exchange(accepting_, false);
  if (refuses_now || is_answer_due(arrival.frees_credit)) {
    answer(*progress.stream, refuses_now);
  } else {
    answer_later(progress.stream);
  }
  return Status::ok();
}

bool Receiver::take_block(std::size_t block, Arrival& arrival) {
  const std::size_t size = shape_.bytes_of(block);
  // Came twice: nothing to do but to say so.
  if (have_.contains(block)) {
    if (is_rounded(block)) write_again(block, arrival);
    return true;
  }
  if (arrival.landing) {
    if (!arrival.landing->is_in(zone_)) return true;
    have_.insert(block);
    arrival.landing->keep();
    on_delivered(size);
    return true;
  }
  // Without a key nobody could say what it is.
  if (!unsealer_.is_ready()) return false;
  if (!unsealer_.open(block, arrival)) return true;
  if (is_open_) {
    // Claimed by another: a copy of it has landed, and its frame is on the way here.
    if (!zone_->claim(block)) return true;
    have_.insert(block);
    deliver(block, std::move(arrival.frame.payload), std::move(arrival.guard));
    return true;
  }
  if (!node_->may_hold(tenant_, size)) return false;
  have_.insert(block);
  node_->add_held(place_.session, tenant_, size);
  held_.push_back({block, std::move(arrival.frame.payload)});
  return true;
}

// A block as it is where there is a rounded one: what else was lost can be solved with it.
void Receiver::write_again(std::size_t block, Arrival& arrival) {
  rounded_[block] = false;
  --delivered_;
  bytes_delivered_ -= shape_.bytes_of(block);
  deliver(block, std::move(arrival.frame.payload), std::move(arrival.guard));
}

// Where members have not called, its credit is not what holds it: relays would wait for them.
bool Receiver::take_sum(Arrival& arrival) {
  const std::size_t size = arrival.payload_bytes();
  const CodedAs coded = arrival.stream->coded_as(has_floats(arrival.header()));
  auto payload = coded_payload_of(arrival.frame.payload, *coded.code);
  if (!payload) {
    node_->refuse_frame();
    return true;
  }
  std::shared_ptr<void> guard = std::move(arrival.guard);
  if (!is_open_) {
    if (!node_->may_hold(tenant_, size)) return false;
    node_->add_held(place_.session, tenant_, size);
    // What is held is not yet what it has: nothing need be sent again for it before the members have called.
    accepting_ = false;
    guard = {static_cast<void*>(this), [node = node_, session = place_.session, tenant = tenant_,
                                        size](void*) { node->remove_held(session, tenant, size); }};
  }
  generations_.add(arrival.header().offset_bytes / shape_.block_bytes, arrival.header().stream_sequence,
                   {arrival.shared_stream(), *std::move(payload), std::move(guard), coded});
  return true;
}

void Receiver::solve() {
  if (!is_open_ || is_cancelled_) return;
  using Place = Generations::Place;
  const auto place_of = [&](std::size_t block) {
    if (is_rounded(block)) return Place::kRounded;
    if (have_.contains(block)) return on_the_way_.contains(block) ? Place::kComing : Place::kHere;
    // Claimed: a copy has landed, and its frame is on the way here.
    return zone_->is_claimed_now(block) ? Place::kComing : Place::kMissing;
  };
  while (auto solution = generations_.solve(place_of)) {
    std::vector<std::size_t> claimed;
    for (const std::size_t block : solution->missing) {
      if (!zone_->claim(block)) break;
      claimed.push_back(block);
    }
    // A thread was faster: its frame has this looked at again.
    if (claimed.size() < solution->missing.size()) {
      for (const std::size_t block : claimed) zone_->release(block);
      return generations_.put_back(*std::move(solution));
    }
    deliver(*std::move(solution));
  }
}

void Receiver::deliver(Generations::Solution solution) {
  ++copying_;
  const std::size_t inputs = solution.parts.size() + solution.known.size();
  const std::size_t bytes = inputs * solution.missing.size() * shape_.block_bytes;
  std::vector<std::shared_ptr<void>> guards;
  for (Generations::Part& part : solution.parts) guards.push_back(std::move(part.guard));
  // The guards go back to the strand: credit is counted there.
  auto done = life_.bind([this, guards = std::move(guards)](const Solved& solved) { on_solved(solved); });
  node_->executor.work(
      bytes, [solution = std::move(solution), shape = shape_, destinations = destinations_,
              opener = unsealer_.opener(), done = std::move(done), executor = &node_->executor]() mutable {
        Solved solved{Generations::name_of(solution), solution.missing,
                      write_solution(solution, shape, destinations, opener.get()),
                      solution.field == FieldKind::kFloat32};
        solution = {};
        executor->post([done = std::move(done), solved = std::move(solved)]() mutable { done(solved); });
      });
}

// What is wrong is as if it had not come: the source hears that it is missing, and sends it as it is.
void Receiver::on_solved(const Solved& solved) {
  --copying_;
  generations_.end(solved.generation);
  if (!solved.wrong.empty()) say_wrong(solved);
  if (solved.are_rounded) rounded_.resize(have_.size());
  std::optional<std::size_t> last;  // of those that are right
  for (const std::size_t block : solved.blocks) {
    if (std::ranges::find(solved.wrong, block) != solved.wrong.end()) {
      zone_->release(block);
      continue;
    }
    have_.insert(block);
    if (solved.are_rounded) rounded_[block] = true;
    if (last) count_delivered(shape_.bytes_of(*last));
    last = block;
  }
  solve();
  if (last) return on_delivered(shape_.bytes_of(*last));  // may be the end
  if (is_cancelled_ && is_drained()) on_done_();
}

void Receiver::say_wrong(const Solved& solved) {
  unsealer_.note_wrong();
  node_->refuse_frame();
  log_seldom(
      node_->wrong_generations, std::to_string(place_.session.value()),
      {.component = "node", .node = node_->options.name},
      "{}: session {}: blocks of generation {} are not what the source sent, though every hop was "
      "right: a node that adds has made a mistake, or somebody has changed what it adds; the source is "
      "asked for them",
      node_->options.name, place_.session.value(), solved.generation.second);
}

void Receiver::deliver(std::size_t block, Buffer payload, std::shared_ptr<void> guard) {
  ++copying_;
  on_the_way_.insert(block);
  const std::size_t offset = block * shape_.block_bytes;
  const std::size_t bytes = payload.size_bytes();
  // The guard goes back to the strand: credit is counted there.
  auto copied = life_.bind([this, guard = std::move(guard), block, bytes] { on_copied(block, bytes); });
  node_->executor.work(bytes * destinations_.size(),
                       [payload = std::move(payload), offset, destinations = destinations_,
                        copied = std::move(copied), executor = &node_->executor]() mutable {
                         for (std::byte* destination : destinations) payload.copy_to(destination + offset);
                         payload = {};
                         executor->post(std::move(copied));
                       });
}

void Receiver::on_copied(std::size_t block, std::size_t bytes) {
  --copying_;
  on_the_way_.erase(block);
  solve();
  on_delivered(bytes);  // may be the end
}

void Receiver::count_delivered(std::size_t bytes) {
  ++delivered_;
  bytes_delivered_ += bytes;
  node_->add_delivered(place_.session, bytes * destinations_.size());
}

void Receiver::on_delivered(std::size_t bytes) {
  count_delivered(bytes);
  if (is_cancelled_) {
    if (is_drained()) on_done_();
    return;
  }
  if (!is_done()) return;
  close_zone();
  generations_.clear();
  answer_on_every_stream();
  on_done_();
}

void Receiver::on_probe(const Arrival& probe) {
  Progress& progress = progress_of(probe.shared_stream());
  progress.seen = std::max(progress.seen, probe.header().stream_sequence);
  if (is_cancelled_) return;
  if (probe.stream->coded != nullptr) {
    generations_.pass(*probe.stream, probe.header().stream_sequence);
    solve();
  }
  // Whoever probes on and on is answered now and then.
  const TimePoint now = node_->clock.now();
  if (now - kProbeAnswers < progress.probed) return answer_later(progress.stream);
  progress.probed = now;
  answer(*progress.stream, true);
}

// With a block that has woken the node anyway, before the timer would; rather with credit than alone.
bool Receiver::is_answer_due(bool has_company) const {
  if (unanswered_ >= kBlocksPerAcknowledgement) return true;
  const Duration delay = has_company ? kAcknowledgementDelay * 3 / 4 : kAcknowledgementDelay;
  return answer_timer_ != 0 && node_->clock.now() >= unanswered_since_ + delay;
}

void Receiver::answer(const LocalStream& stream, bool is_awaited) {
  unanswered_ = 0;
  node_->executor.cancel(answer_timer_);
  answer_timer_ = 0;
  Acknowledgement ack;
  ack.destination = place_.self;
  ack.done = is_done();
  ack.accepting = accepting_;
  ack.awaited = is_awaited;
  ack.forged = unsealer_.is_alarmed();
  ack.first_missing = static_cast<std::uint32_t>(have_.first_missing());
  const std::size_t end = std::min(have_.end(), have_.first_missing() + kMaxSpreadBlocks);
  ack.bits = have_.bits(have_.first_missing(), end);
  for (const auto& [key, progress] : progress_) {
    if (key.epoch != stream.key.epoch) continue;
    const bool is_coded = progress.stream->coded != nullptr;
    ack.seen.push_back(
        {key.stream, is_coded ? generations_.settled(*progress.stream, progress.seen) : progress.seen});
  }
  Frame frame;
  frame.header.type = FrameType::kAck;
  set_stream(frame.header, stream.key);
  frame.header.operation = place_.operation;
  frame.payload = encode_acknowledgement(ack);
  answer_(stream, std::move(frame));
}

void Receiver::answer_on_every_stream() {
  for (const auto& [key, progress] : progress_) answer(*progress.stream, true);
}

void Receiver::answer_later(const std::shared_ptr<const LocalStream>& stream) {
  if (answer_timer_ != 0) return;
  unanswered_since_ = node_->clock.now();
  const TimePoint when = tick_after(unanswered_since_ + kAcknowledgementDelay, kAnswerTick) + kAnswerTick;
  answer_timer_ = node_->executor.post_at(when, life_.bind([this, stream] {
    if (is_cancelled_) return;
    answer_timer_ = 0;
    answer(*stream, false);
  }));
}

Frame final_answer(const LocalStream& stream, NodeId self, const FrameHeader& question) {
  Acknowledgement ack;
  ack.destination = self;
  ack.done = true;
  Frame frame;
  frame.header = question;
  frame.header.type = FrameType::kAck;
  set_stream(frame.header, stream.key);
  frame.payload = encode_acknowledgement(ack);
  return frame;
}

}  // namespace square
