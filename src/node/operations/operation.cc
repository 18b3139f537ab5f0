#include "node/operations/operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/operations/local_fan_out.h"

namespace square {

void Operation::set_member_count(std::size_t count) {
  member_count_ = count;
  open_receivers();
}

const MemberOperation* Operation::source() const {
  for (const auto& [rank, member] : members_) {
    if (member.call.is_root) return &member.call;
  }
  return nullptr;
}

void Operation::post(MemberOperation call, const PlanPointer& plan) {
  const CollectiveOp op = plan->plan().find_collective(key_.collective)->op;
  is_sum_ = op == CollectiveOp::kReduce || op == CollectiveOp::kAllReduce;
  const Status agrees = is_sum_ ? check_neighbours(call) : Status::ok();
  const Rank rank = call.rank;
  const Duration timeout = call.timeout;
  Member& member = members_[rank];
  member.call = std::move(call);
  const TimePoint now = node_.clock.now();
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  member.timer = node_.executor.post_at(deadline, [weak = weak_from_this(), rank] {
    if (const auto self = weak.lock()) self->on_timeout(rank);
  });
  if (!agrees.is_ok()) return fail(agrees, true);
  if (is_sum_) {
    if (all_posted()) open_sums(plan);
    return check_progress();
  }
  if (member.call.is_root) start_source(member.call, plan);
  if (outcome_) return;
  open_receivers();
  if (const MemberOperation* from = source(); from != nullptr && all_posted() && !copied_)
    copy_to_neighbours(*from);
  check_progress();
}

std::shared_ptr<const void> Operation::make_pin(const void* buffer) {
  ++pins_;
  return {buffer, [weak = weak_from_this(), executor = &node_.executor](const void*) {
            executor->post([weak] {
              const auto self = weak.lock();
              if (!self) return;
              --self->pins_;
              self->check_progress();
            });
          }};
}

Buffer Operation::show(const std::shared_ptr<const void>& pin, const std::byte* data,
                       const ByteRange& range) {
  return {pin, data + range.offset_bytes, range.size_bytes};
}

void Operation::note_receivers(const InstalledPlan& plan, SessionId session) {
  for (const LocalStream* stream : plan.streams_of(session)) {
    receivers_of_frames_.insert(stream->children.begin(), stream->children.end());
  }
}

void Operation::start_source(const MemberOperation& call, const PlanPointer& plan) {
  plan_ = plan;
  const auto pin = make_pin(call.input.data());
  for (const PlanSession* session : plan->sessions_of(key_.collective)) {
    if (plan->self() != session->root || session->members.size() == 1) continue;
    const ByteRange range = session_range(plan->plan(), *session, call.input.size());
    const Receiver::Shape shape{range.size_bytes,
                                static_cast<std::uint32_t>(plan->block_bytes(session->id, range.size_bytes))};
    Status ready = Receiver::check(shape);
    if (ready.is_ok() && session->streams.empty()) {
      ready =
          failed_precondition(fmt::format("the plan of policy {} gives collective {} no rate from \"{}\"; "
                                          "choose another policy or other paths",
                                          plan->plan().policy, key_.collective.value(), node_.options.name));
    }
    if (!ready.is_ok()) return fail(ready, true);
    note_receivers(*plan, session->id);
    senders_[session->id] =
        std::make_unique<Sender>(node_, host_.links(), plan, *session, key_.operation,
                                 show(pin, call.input.data(), range), [this] { check_progress(); });
    senders_[session->id]->set_call(call.call);
  }
  for (const auto& [id, sender] : senders_) sender->fill();
}

void Operation::copy_to_neighbours(const MemberOperation& from) {
  copied_ = true;
  FanOut job;
  job.inputs = {from.input.data()};
  for (const auto& [rank, member] : members_) {
    if (member.call.is_root) continue;
    if (member.call.output.size() != from.input.size()) {
      return fail(
          invalid_argument(fmt::format("rank {} posted {} bytes, rank {} posted {}", rank.value(),
                                       member.call.output.size(), from.rank.value(), from.input.size())),
          true);
    }
    job.outputs.push_back(member.call.output);
  }
  if (job.outputs.empty() || from.input.empty()) return;
  ++copies_;
  fan_out(node_.executor, std::move(job), [self = shared_from_this()]() mutable {
    // The strand gets this reference too: the operation must not end on a payload thread.
    Executor& executor = self->node_.executor;
    executor.post([self = std::move(self)] {
      --self->copies_;
      self->check_progress();
    });
  });
}

Receiver* Operation::receiver_for(const Arrival& arrival) {
  const SessionId session = arrival.key().session;
  const FrameHeader& header = arrival.header();
  const auto found = receivers_.find(session);
  if (found != receivers_.end()) return found->second.get();
  const Receiver::Shape shape{header.total_bytes, header.block_bytes, header.layout};
  if (const Status usable = Receiver::check(shape); !usable.is_ok()) {
    fail(usable, true);
    return nullptr;
  }
  if (!plan_) plan_ = arrival.plan;
  auto receiver = std::make_shared<Receiver>(
      shared_node_, *arrival.plan->self(), session, key_.operation, shape,
      [this](const LocalStream& stream, Frame frame) { host_.answer(stream, std::move(frame)); },
      [this] { check_progress(); });
  receivers_.emplace(session, receiver);
  if (all_posted()) open(session, *receiver);
  return outcome_ ? nullptr : receiver.get();
}

void Operation::on_block(Arrival block) {
  if (outcome_ || !agrees_on_layout(block)) return;
  Receiver* receiver = receiver_for(block);
  if (receiver == nullptr) return;
  const std::string_view from = block.from;
  const auto plan = block.plan;  // keeps the name
  const Status taken = receiver->on_block(std::move(block));
  if (!taken.is_ok()) fail(taken.with_context(fmt::format("from node \"{}\"", from)), true);
}

void Operation::on_probe(const Arrival& probe) {
  if (outcome_ || !agrees_on_layout(probe)) return;
  if (Receiver* receiver = receiver_for(probe)) receiver->on_probe(probe);
}

void Operation::open_receivers() {
  if (!all_posted()) return;
  // By value: opening may fail the operation.
  const auto receivers = receivers_;
  for (const auto& [session, receiver] : receivers) {
    if (!outcome_) open(session, *receiver);
  }
}

void Operation::open(SessionId session, Receiver& receiver) {
  std::vector<std::byte*> destinations;
  const PlanSession* planned = plan_->plan().find_session(session);
  for (const auto& [rank, member] : members_) {
    const ByteRange range =
        is_sum_ ? range_of(*planned) : session_range(plan_->plan(), *planned, member.call.output.size());
    if (range.size_bytes != receiver.shape().total_bytes) {
      return fail(invalid_argument(fmt::format(
                      "rank {} on node \"{}\" posted a buffer of {} bytes where {} arrive from node \"{}\"",
                      rank.value(), node_.options.name, range.size_bytes, receiver.shape().total_bytes,
                      plan_->plan().nodes[planned->root.index()].name)),
                  true);
    }
    destinations.push_back(member.call.output.data() + range.offset_bytes);
  }
  receiver.open(std::move(destinations));
}

void Operation::on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) {
  const auto found = senders_.find(header.session);
  if (found != senders_.end()) found->second->on_acknowledgement(header, ack);
}

bool Operation::fill(const StreamKey& key) {
  const auto found = senders_.find(key.session);
  if (found != senders_.end()) found->second->fill();
  const auto sums = sums_.find(key.session);
  if (sums == sums_.end()) return true;
  const auto held = sums->second;
  return held->fill(key);
}

void Operation::shed(SessionId session) {
  const auto sums = sums_.find(session);
  if (sums != sums_.end()) sums->second->shed();
}

bool Operation::runs_before(Epoch epoch) const {
  const auto is_before = [&](const auto& entry) { return entry.second->epoch() < epoch; };
  const auto sums_before = [&](const auto& entry) { return !entry.second->is_done() && is_before(entry); };
  return std::ranges::any_of(senders_, is_before) || std::ranges::any_of(sums_, sums_before);
}

void Operation::migrate(const PlanPointer& plan) {
  for (const auto& [id, sender] : senders_) {
    if (!(sender->epoch() < plan->epoch()) || plan->streams_of(id).empty()) continue;
    sender->migrate(plan);
    sender->fill();
  }
  for (const auto& [id, sums] : sums_) sums->migrate(plan);
}

bool Operation::everything_arrived() const {
  if (is_sum_) return sums_arrived();
  if (source() != nullptr) {
    const bool sent =
        std::ranges::all_of(senders_, [](const auto& entry) { return entry.second->is_done(); });
    return sent && (copied_ || member_count_ == 1);
  }
  if (!plan_ || receivers_.empty()) return false;
  for (const PlanSession* session : plan_->sessions_of(key_.collective)) {
    const bool is_destination = session->root != *plan_->self() &&
                                std::ranges::find(session->members, *plan_->self()) != session->members.end();
    const auto receiver = receivers_.find(session->id);
    if (is_destination && (receiver == receivers_.end() || !receiver->second->is_done())) return false;
  }
  return true;
}

bool Operation::is_quiet() const {
  const auto has_drained = [](const auto& part) { return part->is_drained(); };
  const auto is_drained = [&](const auto& entry) { return has_drained(entry.second); };
  return senders_.empty() && pins_ == 0 && copies_ == 0 && std::ranges::all_of(receivers_, is_drained) &&
         std::ranges::all_of(sums_, is_drained) && std::ranges::all_of(former_receivers_, has_drained) &&
         std::ranges::all_of(former_sums_, has_drained);
}

void Operation::check_progress() {
  if (is_finished_) return;
  if (!outcome_ && all_posted() && copies_ == 0 && everything_arrived()) {
    outcome_ = Status::ok();
    release_buffers();
    force_release_later();
  }
  if (outcome_ && is_quiet()) deliver_outcome();
}

void Operation::release_buffers() {
  // Not at once: a sender or receiver may be the caller.
  node_.executor.post([self = shared_from_this()] {
    if (self->is_finished_) return;
    self->senders_.clear();
    for (const auto& [id, receiver] : self->receivers_) {
      if (self->has_failed()) receiver->cancel();
    }
    for (const auto& [id, sums] : self->sums_) sums->cancel();
    self->check_progress();
  });
}

void Operation::fail(const Status& cause, bool announce) {
  if (outcome_) return;
  outcome_ = cause;
  release_buffers();
  force_release_later();
  if (announce) host_.announce_failure(key_, cause);
  check_progress();
}

// A peer that reads nothing keeps frames, and so the buffer, in the transport.
void Operation::force_release_later() {
  node_.executor.post_at(node_.clock.now() + DataPlane::kDrainTime / 2, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->pins_ == 0 || self->is_finished_) return;
    for (const std::string& peer : self->receivers_of_frames_) {
      const auto& link = self->host_.links().at(peer);
      if (link->handle()) self->node_.transport.close_link(*link->handle());
    }
  });
}

void Operation::abandon() {
  is_finished_ = true;
  senders_.clear();
  receivers_.clear();
  for (const auto& [id, sums] : sums_) sums->cancel();
  sums_.clear();
}

void Operation::on_timeout(Rank rank) {
  if (outcome_ && outcome_->is_ok()) return;  // only waits for its buffers
  fail(deadline_exceeded(fmt::format("rank {} on node \"{}\" timed out after {:.1f} s: {}", rank.value(),
                                     node_.options.name, to_seconds(members_.at(rank).call.timeout),
                                     describe_missing())),
       true);
}

std::string Operation::describe_missing() const {
  if (!all_posted())
    return fmt::format("{} of {} local ranks called the operation", members_.size(), member_count_);
  if (is_sum_) return describe_missing_sums();
  std::string text;
  for (const auto& [id, sender] : senders_) {
    if (const std::string missing = sender->describe_missing(); !missing.empty()) {
      text += fmt::format("{}no confirmation from {}", text.empty() ? "" : "; ", missing);
    }
  }
  for (const auto& [id, receiver] : receivers_) {
    text += fmt::format("{}{} of {} bytes arrived", text.empty() ? "" : "; ", receiver->bytes_delivered(),
                        receiver->shape().total_bytes);
  }
  return text.empty() ? "nothing arrived from the source; has it called the operation?" : text;
}

void Operation::deliver_outcome() {
  if (is_finished_) return;
  is_finished_ = true;
  const auto self = shared_from_this();  // the host lets go of the operation
  host_.on_finished(key_, *outcome_);
  for (auto& [rank, member] : members_) {
    node_.executor.cancel(member.timer);
    if (member.call.done) member.call.done(*outcome_);
  }
}

}  // namespace square
