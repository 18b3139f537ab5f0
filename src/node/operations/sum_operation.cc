#include "node/operations/sum_operation.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/operations/check_call.h"

namespace square {

SumOperation::SumOperation(CollectiveOp op, Operation& operation)
    : op_(op),
      operation_(operation),
      sums_(operation, {[this](SessionId session) { on_sums_progress(session); },
                        [this](SessionId pair, std::size_t block) { on_sum(pair, block); }}),
      multicasts_(operation, [this](SessionId session) { on_multicast_done(session); }) {}

Status SumOperation::check_neighbours(const MemberOperation& call) const {
  for (const auto& [rank, member] : operation_.members()) {
    if (Status alike = check_alike(call, member.call); !alike.is_ok()) return alike;
  }
  return Status::ok();
}

void SumOperation::on_post(const MemberOperation&, const PlanPointer& plan) {
  if (operation_.all_posted()) open_sums(plan);
}

// A buffer that is cut into shares must be cut alike everywhere. Members may call while a
// plan changes, so the newest plan under which anybody called decides. Nothing is lost by
// beginning again: no sum is complete before that member has given its part.
bool SumOperation::agrees_on_layout(const FrameHeader& header) {
  if (header.layout == Epoch(0)) return false;
  if (plan_ && header.layout <= plan_->epoch()) return header.layout == plan_->epoch();
  // Everybody has given its part under this cut: a lie.
  if (sums_.has_results() || multicasts_.has_delivered()) return false;
  PlanPointer newer = operation_.host().collective_of(operation_.key().collective, header.layout);
  // That plan is gone here already: a newer one will do as well, and the others follow.
  if (!newer && is_open_) newer = operation_.host().active(operation_.key().collective);
  if (!newer || newer->epoch() < header.layout) return false;
  cut_by(newer);
  return !operation_.is_over() && newer->epoch() == header.layout;
}

void SumOperation::cut_by(const PlanPointer& plan) {
  sums_.drop();
  multicasts_.drop();
  plan_ = plan;
  is_open_ = false;
  if (!operation_.all_posted()) return;
  open_sums(plan);
  // The plan that cuts the buffer may be an older one, whose streams are gone, or go soon.
  const auto active = operation_.host().active(operation_.key().collective);
  if (!operation_.is_over() && active && active->epoch() > plan->epoch()) migrate(active, false);
}

void SumOperation::open_sums(const PlanPointer& plan) {
  // Whatever came under an older plan: its senders hear of this one.
  if (plan_ && plan_->epoch() < plan->epoch()) return cut_by(plan);
  if (!plan_) plan_ = plan;
  is_open_ = true;
  layout_.emplace(*plan_, first_call());
  waiting_.clear();
  if (layout_->is_local()) return sum_locally();
  if (layout_->shares().empty()) {
    return operation_.fail(
        failed_precondition(fmt::format("the plan of policy {} gives collective {} no rate; choose "
                                        "another policy or other paths",
                                        plan_->policy(), operation_.key().collective.value())),
        true);
  }
  for (const SumLayout::Share& share : layout_->shares()) waiting_.insert(share.session->id);
  const auto pin = operation_.make_pin(first_call().input.data());
  for (const SumLayout::Share& share : layout_->shares()) {
    if (operation_.is_over()) return;
    if (share.session->kind == SessionKind::kReduce) open_sum(share, pin);
  }
  open();
  for (const SumLayout::Share& share : layout_->shares()) {
    if (is_through(share)) waiting_.erase(share.session->id);
  }
}

// As this node would begin it, if no frame has begun it yet.
Result<SumShape> SumOperation::shape_of_own(const SumLayout::Share& share) const {
  std::size_t block = plan_->block_bytes(share.session->id, share.range.size_bytes);
  if (share.pair != nullptr)
    block = std::min(block, plan_->block_bytes(share.pair->id, share.range.size_bytes));
  const SumShape shape{share.range.size_bytes, static_cast<std::uint32_t>(block), first_call().reduction,
                       plan_->epoch()};
  if (Status usable = check(shape); !usable.is_ok()) return usable;
  return shape;
}

void SumOperation::open_sum(const SumLayout::Share& share, const std::shared_ptr<const void>& pin) {
  const PlanSession& session = *share.session;
  const MemberOperation& first = first_call();
  auto sums = sums_.find(session.id);
  if (!sums) {
    const auto shape = shape_of_own(share);
    if (!shape.is_ok()) return operation_.fail(shape.status(), true);
    sums = sums_.add(plan_, session, *shape);
  }
  const std::string& self = operation_.node()->options.name;
  const SumShape& shape = sums->shape();
  if (shape.total_bytes != share.range.size_bytes || shape.reduction != first.reduction) {
    return operation_.fail(invalid_argument(fmt::format(
                               "rank {} on node \"{}\" posted {}; others add {} there", first.rank.value(),
                               self, describe(first), to_string(shape.description()))),
                           true);
  }
  operation_.show_to_neighbours(*plan_, session.id);
  SumBuffers buffers{{}, {}, shape.reduction, first.group_size};
  const std::uint64_t offset = share.range.offset_bytes;
  for (const auto& [rank, member] : operation_.members()) {
    buffers.inputs.push_back(member.call.input.data() + offset);
    if (session.pair || member.call.is_root) buffers.outputs.push_back(member.call.output.data() + offset);
  }
  const bool is_root = session.root == plan_->self();
  if (is_root && buffers.outputs.empty()) {
    return operation_.fail(
        invalid_argument(fmt::format(
            "the plan's root is on node \"{}\", but none of its ranks says that it is the root", self)),
        true);
  }
  if (is_root && share.pair != nullptr) {
    multicasts_.send(plan_, *share.pair, {pin, first.output.data() + offset, share.range.size_bytes},
                     first.call, ElementType::kBytes, Sender::Sums{shape.block_bytes, shape.layout});
  }
  sums->set_call(first.call);
  sums->open(std::move(buffers), pin);
}

void SumOperation::open() {
  if (!is_open_) return;
  // By value: opening may fail the operation.
  const auto receivers = multicasts_.receivers();
  for (const auto& [session, receiver] : receivers) {
    if (!operation_.is_over()) open_receiver(session);
  }
}

void SumOperation::open_receiver(SessionId session) {
  const SumLayout::Share* const share = layout_->find(session);
  const PlanSession* const planned = plan_->session(session);
  const ByteRange range = share == nullptr ? ByteRange{} : share->range;
  multicasts_.open(session, planned == nullptr ? "" : plan_->name_of(planned->root),
                   [&](const MemberOperation&) { return range; });
}

// All members live here: no link is needed.
void SumOperation::sum_locally() {
  FanOut job;
  for (const auto& [rank, member] : operation_.members()) {
    job.inputs.push_back(member.call.input.data());
    if (op_ == CollectiveOp::kAllReduce || member.call.is_root) job.outputs.push_back(member.call.output);
  }
  job.reduction = first_call().reduction;
  job.group_size = first_call().group_size;
  operation_.give_locally(std::move(job));
}

bool SumOperation::fill(const StreamKey& key) {
  multicasts_.fill(key.session);
  return sums_.fill(key);
}

bool SumOperation::runs_before(Epoch epoch) const {
  return multicasts_.runs_before(epoch) || sums_.runs_before(epoch);
}

void SumOperation::hurry() {
  multicasts_.hurry();
  sums_.hurry();
}

void SumOperation::migrate(const PlanPointer& plan, bool may_stay) {
  multicasts_.migrate(plan, may_stay);
  if (!operation_.is_over()) sums_.migrate(plan);
}

void SumOperation::on_sum(SessionId pair, std::size_t block) {
  Sender* const sender = multicasts_.sender(pair);
  if (sender == nullptr) return;
  sender->make_ready(block);
  sender->fill();
}

void SumOperation::on_sums_progress(SessionId session) {
  if (sums_.is_done(session)) waiting_.erase(session);
  operation_.check_progress();
}

void SumOperation::on_multicast_done(SessionId session) {
  if (is_open_ && multicasts_.is_done(session)) {
    waiting_.erase(session);
    // Its sums cannot have come back before all parts were there.
    const SumLayout::Share* const share = layout_->find(session);
    if (share != nullptr && share->pair != nullptr) waiting_.erase(share->pair->id);
  }
  operation_.check_progress();
}

// What came before the members here had posted.
bool SumOperation::is_through(const SumLayout::Share& share) const {
  return sums_.is_done(share.session->id) || multicasts_.is_done(share.session->id);
}

void SumOperation::release(bool has_failed) {
  multicasts_.release(has_failed);
  sums_.cancel();
}

void SumOperation::abandon() {
  multicasts_.abandon();
  sums_.abandon();
}

std::string SumOperation::describe_missing() const {
  std::vector<std::string> texts = sums_.unfinished();
  std::ranges::move(multicasts_.unconfirmed(), std::back_inserter(texts));
  std::ranges::move(multicasts_.unfinished(false), std::back_inserter(texts));
  return texts.empty() ? "nothing is known of the other members; have they called the operation?"
                       : fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace square
