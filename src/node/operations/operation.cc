#include "node/operations/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/operations/multicast_operation.h"
#include "node/operations/sum_operation.h"

namespace square {

namespace {

// After a success the caller's buffer is waited for, for five seconds; then links are closed.
constexpr Duration kReleaseRound = DataPlane::kDrainTime / 2;
constexpr int kReleaseRounds = 10;

}  // namespace

std::unique_ptr<OperationWork> make_work(CollectiveOp op, Operation& operation) {
  if (op == CollectiveOp::kReduce || op == CollectiveOp::kAllReduce)
    return std::make_unique<SumOperation>(op, operation);
  return std::make_unique<MulticastOperation>(operation);
}

Operation::Operation(std::shared_ptr<NodeContext> node, OperationHost& host, OperationKey key,
                     CollectiveOp op)
    : node_(std::move(node)), host_(host), key_(key), work_(make_work(op, *this)) {}

void Operation::set_member_count(std::size_t count) {
  member_count_ = count;
  work_->open();
}

void Operation::post(MemberOperation call, const PlanPointer& plan) {
  const Status agrees = work_->check_neighbours(call);
  const Rank rank = call.rank;
  const Duration timeout = call.timeout;
  Member& member = members_[rank];
  member.call = std::move(call);
  const TimePoint now = node_->clock.now();
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  member.timer = node_->executor.post_at(deadline, life_.bind([this, rank] {
    const auto self = shared_from_this();  // it may end
    on_timeout(rank);
  }));
  if (const auto& progress = member.call.progress) {
    progress->begin(plan->epoch());
    if (first_byte_) progress->note_bytes(*first_byte_);
  }
  if (!agrees.is_ok()) return fail(agrees, true);
  work_->on_post(member.call, plan);
  check_progress();
}

void Operation::note_bytes() {
  const TimePoint now = node_->clock.now();
  if (!first_byte_) first_byte_ = now;
  for (const auto& [rank, member] : members_) {
    if (member.call.progress) member.call.progress->note_bytes(now);
  }
}

void Operation::on_arrival(Arrival arrival) {
  if (arrival.header().type == FrameType::kBlock) note_bytes();
  if (!outcome_) return work_->on_arrival(std::move(arrival));
  // Others may need what the root asks for.
  if (arrival.header().type == FrameType::kRequest) host_.answer(*arrival.stream, arrival.frame);
}

void Operation::on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) {
  note_bytes();
  work_->on_acknowledgement(header, ack);
}

void Operation::on_layout(const InstalledCollective& plan, const FrameHeader& header) {
  if (!outcome_) work_->on_layout(plan, header);
}

std::shared_ptr<const void> Operation::make_pin(const void* buffer) {
  ++pins_;
  const auto unpin = life_.bind([this] {
    --pins_;
    check_progress();
  });
  return {buffer, [unpin, executor = &node_->executor](const void*) { executor->post(unpin); }};
}

void Operation::show_to_neighbours(const InstalledCollective& plan, SessionId session) {
  for (const LocalStream* stream : plan.streams_of(session)) {
    receivers_of_frames_.insert(stream->children.begin(), stream->children.end());
  }
}

void Operation::give_locally(FanOut job) {
  ++copies_;
  const auto given = life_.bind([this] {
    --copies_;
    note_bytes();
    check_progress();
  });
  fan_out(node_->executor, std::move(job), [given, executor = &node_->executor] { executor->post(given); });
}

void Operation::check_progress() {
  if (is_finished_) return;
  if (!outcome_ && all_posted() && copies_ == 0 && work_->is_done()) {
    outcome_ = Status::ok();
    release_buffers();
    force_release_later(1);
  }
  if (outcome_ && pins_ == 0 && copies_ == 0 && work_->is_quiet()) deliver_outcome();
}

void Operation::release_buffers() {
  // Not at once: a part of the work may be the caller.
  node_->executor.post(life_.bind([this] {
    if (is_finished_) return;
    work_->release(has_failed());
    check_progress();
  }));
}

GroupCall Operation::call() const {
  if (!members_.empty()) return members_.begin()->second.call.call;
  return heard_call_ ? heard_call_->call : GroupCall{};
}

void Operation::fail(const Status& cause, bool announce) {
  if (outcome_) return;
  outcome_ = cause;
  release_buffers();
  force_release_later(1);
  if (announce) host_.announce_failure(key_, cause, call());
  check_progress();
}

// A peer that reads nothing keeps frames, and so the buffer, in the transport. One that is only slow is
// waited for by who has succeeded; not for ever, and not longer than a caller wants to wait.
void Operation::force_release_later(int round) {
  node_->executor.post_at(node_->clock.now() + kReleaseRound, life_.bind([this, round] {
    if (pins_ == 0 || is_finished_) return;
    force_release(round);
    if (!has_failed() && round < kReleaseRounds) force_release_later(round + 1);
  }));
}

// In the last round every link that frames went over; before, those with frames under way.
void Operation::force_release(int round) {
  for (const std::string& peer : receivers_of_frames_) {
    const auto& link = host_.links().at(peer);
    const int patience = link->is_idle() ? kReleaseRounds : kReleaseRounds - 1;
    if (!link->handle() || !(has_failed() || link->is_suspected() || round >= patience)) continue;
    node_->transport.close_link(*link->handle());
  }
}

void Operation::abandon() {
  is_finished_ = true;
  work_->abandon();
}

std::string Operation::describe_missing() const {
  if (outcome_) return "its buffers are still in use by links";
  const std::string missing =
      all_posted() ? work_->describe_missing()
                   : fmt::format("{} of {} local ranks called the operation", members_.size(), member_count_);
  return missing + host_.lost_links(key_.collective);
}

void Operation::on_timeout(Rank rank) {
  if (outcome_ && outcome_->is_ok()) {  // only waits for its buffers
    if (pins_ > 0) force_release(kReleaseRounds);
    return;
  }
  fail(deadline_exceeded(fmt::format("rank {} on node \"{}\" timed out after {:.1f} s: {}", rank.value(),
                                     node_->options.name, to_seconds(members_.at(rank).call.timeout),
                                     describe_missing())),
       true);
}

void Operation::deliver_outcome() {
  if (is_finished_) return;
  is_finished_ = true;
  const auto self = shared_from_this();  // the host lets go of the operation
  host_.on_finished(key_, *outcome_);
  for (auto& [rank, member] : members_) {
    node_->executor.cancel(member.timer);
    if (member.call.done) member.call.done(*outcome_);
  }
}

}  // namespace square
