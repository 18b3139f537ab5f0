// Reduces and all-reduces: partial sums go up trees to the roots of the plan's shares, and in
// an all-reduce each root's sums go down trees to everybody, block by block.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "coding/sum.h"
#include "node/messages/call_description.h"
#include "node/operations/local_fan_out.h"
#include "node/operations/operation.h"
#include "node/sums/sum_forwarder.h"
#include "node/sums/sum_root.h"

namespace square {
namespace {

bool adds(CollectiveOp op) { return op == CollectiveOp::kReduce || op == CollectiveOp::kAllReduce; }

Frame layout_notice(const FrameHeader& question, Epoch layout, std::uint32_t incarnation) {
  Frame notice{question, encode_request({})};
  notice.header.type = FrameType::kRequest;
  notice.header.layout = layout;
  notice.header.incarnation = incarnation;
  return notice;
}

// What frames say of it, too.
CallDescription description_of(const MemberOperation& call) {
  return {{}, call.reduction, call.input.size(), 0, {}};
}

Caller caller_of(Rank rank, const MemberOperation& call) {
  CallDescription called = description_of(call);
  called.group_size = call.group_size;
  return {fmt::format("rank {}", rank.value()), called};
}

}  // namespace

Status Operation::check_call(const MemberOperation& call, const Plan& plan) {
  const PlanCollective* collective = plan.find_collective(call.collective);
  if (collective->op == CollectiveOp::kBroadcast) return Status::ok();
  if (!adds(collective->op)) {
    return unimplemented(fmt::format("nodes do not run {} yet", to_string(collective->op)));
  }
  for (const PlanSession& session : plan.sessions) {
    if (session.collective == call.collective && session.kind == SessionKind::kUnicast) {
      return unimplemented("nodes do not run ring all-reduces yet: plan it with algorithm \"planned\"");
    }
  }
  SQUARE_RETURN_IF_ERROR(check_reduction(call.reduction).with_context(to_string(collective->op)));
  if (call.reduction.op == ReduceOp::kAverage && call.group_size == 0) {
    return invalid_argument(
        fmt::format("rank {}: an average needs group_size, the number of members", call.rank.value()));
  }
  const std::size_t element = element_bytes(call.reduction.type);
  if (call.input.size() % element != 0) {
    return invalid_argument(fmt::format("rank {}: {} bytes are not a number of {}, which have {} bytes each",
                                        call.rank.value(), call.input.size(), to_string(call.reduction.type),
                                        element));
  }
  const bool has_result = collective->op == CollectiveOp::kAllReduce || call.is_root;
  if (has_result && call.output.size() != call.input.size()) {
    return invalid_argument(fmt::format("rank {}: the output has {} bytes, the input {}", call.rank.value(),
                                        call.output.size(), call.input.size()));
  }
  return Status::ok();
}

// All members on this node must have said the same.
Status Operation::check_neighbours(const MemberOperation& call) const {
  for (const auto& [rank, member] : members_) {
    SQUARE_RETURN_IF_ERROR(compare_calls(caller_of(call.rank, call), caller_of(rank, member.call)));
  }
  return Status::ok();
}

// A buffer that is cut into shares must be cut alike everywhere. Members may call while a
// plan changes, so the newest plan under which anybody called decides. Nothing is lost by
// beginning again: no sum is complete before that member has given its part.
bool Operation::agrees_on_layout(const InstalledPlan& plan, const FrameHeader& header) {
  const bool is_cut = layout_of(plan) != Epoch(0);
  if (!is_cut || header.layout == Epoch(0)) return is_cut == (header.layout != Epoch(0));
  if (plan_ && header.layout <= plan_->epoch()) return header.layout == plan_->epoch();
  if (has_results()) return false;  // everybody has given its part under this cut: a lie
  PlanPointer newer = host_.plan_of(header.layout);
  // That plan is gone here already: a newer one will do as well, and the others follow.
  if (!newer && sums_are_open_) newer = host_.active_plan();
  if (!newer || newer->epoch() < header.layout) return false;
  cut_by(newer);
  return !outcome_ && newer->epoch() == header.layout;
}

bool Operation::has_results() const {
  return std::ranges::any_of(sums_, [](const auto& entry) { return entry.second->has_results(); }) ||
         std::ranges::any_of(receivers_,
                             [](const auto& entry) { return entry.second->bytes_delivered() > 0; });
}

void Operation::cut_by(const PlanPointer& plan) {
  for (const auto& [id, sums] : sums_) {
    sums->cancel();
    if (!sums->is_drained()) former_sums_.push_back(sums);
  }
  sums_.clear();
  senders_.clear();
  for (const auto& [id, receiver] : receivers_) {
    receiver->cancel();
    if (!receiver->is_drained()) former_receivers_.push_back(receiver);
  }
  receivers_.clear();
  multicast_of_.clear();
  plan_ = plan;
  sums_are_open_ = false;
  if (!is_sum_ || !all_posted()) return;
  open_sums(plan);
  // The plan that cuts the buffer may be an older one, whose streams are gone, or go soon.
  if (const auto active = host_.active_plan(); !outcome_ && active && active->epoch() > plan->epoch())
    migrate(active);
}

Epoch Operation::layout_of(const InstalledPlan& plan) const {
  return adds(plan.plan().find_collective(key_.collective)->op) ? plan.epoch() : Epoch(0);
}

ByteRange Operation::range_of(const PlanSession& session) const {
  const MemberOperation& call = members_.begin()->second.call;
  const std::size_t element = element_bytes(call.reduction.type);
  const ByteRange elements = session_range(plan_->plan(), session, call.input.size() / element);
  return {elements.offset_bytes * element, elements.size_bytes * element};
}

// An operation without bytes still tells everybody that all have called it, in one session.
bool Operation::carries_bytes(const PlanSession& session) const {
  if (session.streams.empty()) return false;
  if (range_of(session).size_bytes > 0) return true;
  if (!members_.begin()->second.call.input.empty()) return false;
  for (const PlanSession* other : plan_->sessions_of(key_.collective)) {
    const bool has_bytes = !other->pair || other->size_bytes > 0;
    if (other->kind == SessionKind::kReduce && !other->streams.empty() && has_bytes) {
      return other->id == session.id || other->pair == session.id;
    }
  }
  return false;
}

void Operation::open_sums(const PlanPointer& plan) {
  if (!plan_ || plan_->epoch() < plan->epoch()) {
    // Whatever came under an older plan: its senders hear of this one.
    const bool recut = plan_ && layout_of(*plan) != Epoch(0);
    plan_ = plan;
    if (recut) return cut_by(plan);
  }
  sums_are_open_ = true;
  const auto sessions = plan_->sessions_of(key_.collective);
  if (sessions.empty()) return sum_locally();
  if (std::ranges::none_of(sessions, [&](const PlanSession* session) { return carries_bytes(*session); })) {
    return fail(failed_precondition(fmt::format("the plan of policy {} gives collective {} no rate; choose "
                                                "another policy or other paths",
                                                plan_->plan().policy, key_.collective.value())),
                true);
  }
  const auto pin = make_pin(members_.begin()->second.call.input.data());
  for (const PlanSession* session : sessions) {
    if (outcome_) return;
    if (session->kind == SessionKind::kReduce && carries_bytes(*session)) open_sum(*session, pin);
  }
  open_receivers();
}

std::shared_ptr<SumSession> Operation::add_sums(const PlanPointer& plan, const PlanSession& session,
                                                const SumShape& shape) {
  const auto answer = [this](const LocalStream& stream, const Frame& frame) { host_.answer(stream, frame); };
  const auto progress = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->check_progress();
  };
  const auto on_restart = [this, id = session.id] { host_.on_restart(key_, id); };
  const SumLabel label{session.id, key_.operation, node_.options.incarnation, 0, shape};
  std::shared_ptr<SumSession> sums;
  if (session.root == plan->self()) {
    sums = std::make_shared<SumRoot>(
        shared_node_, plan, label,
        SumRoot::Host{answer, [this](const Status& cause) { fail(cause, true); }, progress,
                      [this, id = session.id](std::size_t block) { on_sum(id, block); }, on_restart});
  } else {
    sums = std::make_shared<SumForwarder>(
        shared_node_, host_.links(), plan, label,
        SumForwarder::Host{answer, progress, [this](const StreamKey& key) { host_.fill_stream(key); },
                           on_restart});
  }
  sums_[session.id] = sums;
  return sums;
}

void Operation::open_sum(const PlanSession& session, const std::shared_ptr<const void>& pin) {
  const MemberOperation& first = members_.begin()->second.call;
  const ByteRange range = range_of(session);
  const PlanSession* pair = session.pair ? plan_->plan().find_session(*session.pair) : nullptr;
  auto found = sums_.find(session.id);
  if (found == sums_.end()) {
    std::size_t block = plan_->block_bytes(session.id, range.size_bytes);
    if (pair != nullptr) block = std::min(block, plan_->block_bytes(pair->id, range.size_bytes));
    const SumShape shape{range.size_bytes, static_cast<std::uint32_t>(block), first.reduction,
                         layout_of(*plan_)};
    if (const Status usable = check(shape); !usable.is_ok()) return fail(usable, true);
    add_sums(plan_, session, shape);
    found = sums_.find(session.id);
  }
  const auto sums = found->second;
  const SumShape& shape = sums->shape();
  if (shape.total_bytes != range.size_bytes || shape.reduction != first.reduction) {
    return fail(invalid_argument(fmt::format(
                    "rank {} on node \"{}\" posted {}; others add {} there", first.rank.value(),
                    node_.options.name, to_string(description_of(first)), to_string(shape.description()))),
                true);
  }
  note_receivers(*plan_, session.id);
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (const auto& [rank, member] : members_) {
    inputs.push_back(member.call.input.data() + range.offset_bytes);
    if (session.pair || member.call.is_root)
      outputs.push_back(member.call.output.data() + range.offset_bytes);
  }
  const bool is_root = session.root == plan_->self();
  if (is_root && outputs.empty()) {
    return fail(invalid_argument(fmt::format(
                    "the plan's root is on node \"{}\", but none of its ranks says that it is the root",
                    node_.options.name)),
                true);
  }
  if (pair != nullptr) {
    multicast_of_.emplace(session.id, pair->id);
    if (is_root) open_multicast_of_sums(*pair, shape, pin);
  }
  sums->set_call(first.call);
  sums->open({std::move(inputs), std::move(outputs), shape.reduction, first.group_size}, pin);
}

void Operation::open_multicast_of_sums(const PlanSession& session, const SumShape& shape,
                                       const std::shared_ptr<const void>& pin) {
  note_receivers(*plan_, session.id);
  Buffer data = show(pin, members_.begin()->second.call.output.data(), range_of(session));
  senders_[session.id] = std::make_unique<Sender>(
      node_, host_.links(), plan_, session, key_.operation, std::move(data), [this] { check_progress(); },
      Sender::Sums{shape.block_bytes, shape.layout});
  senders_[session.id]->set_call(members_.begin()->second.call.call);
}

void Operation::on_sum(SessionId session, std::size_t block) {
  const auto multicast = multicast_of_.find(session);
  if (multicast == multicast_of_.end()) return;
  const auto sender = senders_.find(multicast->second);
  if (sender == senders_.end()) return;
  sender->second->make_ready(block);
  sender->second->fill();
}

SumSession* Operation::sums_for(const Arrival& arrival) {
  const SessionId session = arrival.key().session;
  const FrameHeader& header = arrival.header();
  const auto found = sums_.find(session);
  if (found != sums_.end()) return found->second.get();
  const SumShape shape = shape_of(header);
  if (const Status usable = check(shape); !usable.is_ok()) {
    fail(usable, true);
    return nullptr;
  }
  if (!plan_) plan_ = header.layout == Epoch(0) ? arrival.plan : host_.plan_of(header.layout);
  if (sums_are_open_) {
    // All sums that this node knows of are open: another's buffer is cut in another way.
    const MemberOperation& first = members_.begin()->second.call;
    fail(invalid_argument(fmt::format("rank {} on node \"{}\" posted {}; another posted another size",
                                      first.rank.value(), node_.options.name,
                                      to_string(description_of(first)))),
         true);
    return nullptr;
  }
  const PlanSession* planned = arrival.plan->plan().find_session(session);
  return add_sums(arrival.plan, *planned, shape).get();
}

void Operation::on_part(Arrival part) {
  if (outcome_ || !agrees_on_layout(part)) return;
  SumSession* sums = sums_for(part);
  if (sums == nullptr) return;
  const std::string_view from = part.from;
  const auto plan = part.plan;  // keeps the name
  const Status taken = sums->on_block(std::move(part));
  if (!taken.is_ok())
    fail(taken.with_context(fmt::format("from node \"{}\" to \"{}\"", from, node_.options.name)), true);
}

void Operation::on_request(const Arrival& request) {
  const bool heeds = !outcome_ && agrees_on_layout(request);
  SumSession* sums = heeds ? sums_for(request) : nullptr;
  if (sums == nullptr) return host_.answer(*request.stream, request.frame);
  const Status taken = sums->on_request(request);
  if (!taken.is_ok()) fail(taken.with_context("from the root of a reduce"), true);
}

void Operation::on_layout(const InstalledPlan& plan, const FrameHeader& header) {
  if (!outcome_) static_cast<void>(agrees_on_layout(plan, header));
}

void Operation::on_report(Arrival report) {
  if (outcome_) return;
  const FrameHeader& header = report.header();
  if (plan_ && header.layout != Epoch(0) && header.layout < plan_->epoch()) {
    // The contributor cannot move up with a cut that is over, and may not hear from anybody else.
    return host_.answer(*report.stream, layout_notice(header, plan_->epoch(), node_.options.incarnation));
  }
  SumSession* sums = agrees_on_layout(report) ? sums_for(report) : nullptr;
  if (sums == nullptr) return;
  const Status taken = sums->on_report(std::move(report));
  if (!taken.is_ok()) fail(taken, true);
}

// All members live here: no link is needed.
void Operation::sum_locally() {
  ++copies_;
  copied_ = true;
  const CollectiveOp op = plan_->plan().find_collective(key_.collective)->op;
  FanOut job;
  for (const auto& [rank, member] : members_) {
    job.inputs.push_back(member.call.input.data());
    if (op == CollectiveOp::kAllReduce || member.call.is_root) job.outputs.push_back(member.call.output);
  }
  job.reduction = members_.begin()->second.call.reduction;
  job.group_size = members_.begin()->second.call.group_size;
  fan_out(node_.executor, std::move(job), [self = shared_from_this()]() mutable {
    // The strand gets this reference too: the operation must not end on a payload thread.
    Executor& executor = self->node_.executor;
    executor.post([self = std::move(self)] {
      --self->copies_;
      self->check_progress();
    });
  });
}

bool Operation::sums_arrived() const {
  if (!sums_are_open_) return false;
  for (const PlanSession* session : plan_->sessions_of(key_.collective)) {
    if (!carries_bytes(*session)) continue;
    if (session->kind == SessionKind::kReduce) {
      // Its sums cannot have come back before all parts were there.
      const auto result = session->pair ? receivers_.find(*session->pair) : receivers_.end();
      if (result != receivers_.end() && result->second->is_done()) continue;
      const auto sums = sums_.find(session->id);
      if (sums == sums_.end() || !sums->second->is_done()) return false;
    } else if (session->root == *plan_->self()) {
      const auto sender = senders_.find(session->id);
      if (sender == senders_.end() || !sender->second->is_done()) return false;
    } else {
      const auto receiver = receivers_.find(session->id);
      if (receiver == receivers_.end() || !receiver->second->is_done()) return false;
    }
  }
  return true;
}

std::string Operation::describe_missing_sums() const {
  std::string text;
  const auto say = [&](const std::string& missing) {
    if (!missing.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", missing);
  };
  for (const auto& [id, sums] : sums_) say(sums->describe_missing());
  for (const auto& [id, sender] : senders_) {
    const std::string missing = sender->describe_missing();
    if (!missing.empty()) say("no confirmation from " + missing);
  }
  for (const auto& [id, receiver] : receivers_) {
    if (!receiver->is_done())
      say(fmt::format("{} of {} bytes arrived", receiver->bytes_delivered(), receiver->shape().total_bytes));
  }
  return text.empty() ? "nothing is known of the other members; have they called the operation?" : text;
}

}  // namespace square
