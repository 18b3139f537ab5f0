#include "node/operations/multicast_operation.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {

void MulticastOperation::on_post(const MemberOperation& call,
                                 const std::shared_ptr<const InstalledCollective>& plan) {
  const auto& sessions = plan->sessions();
  if (!sessions.empty()) source_ = fmt::format(" \"{}\"", plan->name_of(sessions.front().root));
  if (call.is_root) send(call, plan);
  if (operation_.is_over()) return;
  open();
  if (has_source_ && operation_.all_posted() && !copied_) copy_to_neighbours();
}

void MulticastOperation::send(const MemberOperation& call,
                              const std::shared_ptr<const InstalledCollective>& plan) {
  has_source_ = true;
  plan_ = plan;
  const auto pin = operation_.make_pin(call.input.data());
  const CollectiveId collective = operation_.key().collective;
  for (const PlanSession& session : plan->sessions()) {
    if (plan->self() != session.root || session.members.size() == 1) continue;
    const ByteRange range = session_range(plan->planned(), session, call.input.size());
    const Receiver::Shape shape{range.size_bytes,
                                static_cast<std::uint32_t>(plan->block_bytes(session.id, range.size_bytes))};
    Status ready = Receiver::check(shape);
    if (ready.is_ok() && session.streams.empty()) {
      ready = failed_precondition(
          fmt::format("the plan of policy {} gives collective {} no rate from \"{}\"; "
                      "choose another policy or other paths",
                      plan->policy(), collective.value(), operation_.node()->options.name));
    }
    if (!ready.is_ok()) return operation_.fail(ready, true);
    open_.insert(session.id);
    multicasts_.send(plan, session, {pin, call.input.data() + range.offset_bytes, range.size_bytes},
                     call.call, call.elements);
  }
  multicasts_.fill_all();
}

void MulticastOperation::copy_to_neighbours() {
  copied_ = true;
  const auto& members = operation_.members();
  const auto is_source = [](const auto& entry) { return entry.second.call.is_root; };
  const MemberOperation& from = std::ranges::find_if(members, is_source)->second.call;
  FanOut job;
  job.inputs = {from.input.data()};
  for (const auto& [rank, member] : members) {
    if (member.call.is_root) continue;
    if (member.call.output.size() != from.input.size()) {
      return operation_.fail(
          invalid_argument(fmt::format("rank {} posted {} bytes, rank {} posted {}", rank.value(),
                                       member.call.output.size(), from.rank.value(), from.input.size())),
          true);
    }
    job.outputs.push_back(member.call.output);
  }
  if (!job.outputs.empty() && !from.input.empty()) operation_.give_locally(std::move(job));
}

void MulticastOperation::on_arrival(Arrival arrival) {
  if (arrival.header().layout != Epoch(0)) return;
  const SessionId session = arrival.key().session;
  if (multicasts_.receiver_of(arrival) == nullptr) {
    if (multicasts_.add_receiver(arrival) == nullptr) return;
    if (!plan_) {
      plan_ = arrival.plan;
      for (const PlanSession& planned : plan_->sessions()) {
        const bool is_member = std::ranges::find(planned.members, *plan_->self()) != planned.members.end();
        if (is_member && planned.root != *plan_->self()) open_.insert(planned.id);
      }
    }
    if (operation_.all_posted()) open_receiver(session);
    if (operation_.is_over()) return;
  }
  if (Receiver* const receiver = multicasts_.receiver(session))
    multicasts_.take(*receiver, std::move(arrival));
}

void MulticastOperation::open() {
  if (!operation_.all_posted()) return;
  // By value: opening may fail the operation.
  const auto receivers = multicasts_.receivers();
  for (const auto& [session, receiver] : receivers) {
    if (!operation_.is_over()) open_receiver(session);
  }
}

void MulticastOperation::open_receiver(SessionId session) {
  const PlanSession* planned = plan_->session(session);
  if (planned == nullptr) {
    return operation_.fail(
        data_loss(fmt::format("session {} is not one of the broadcast's", session.value())), true);
  }
  multicasts_.open(session, plan_->name_of(planned->root), [&](const MemberOperation& call) {
    return session_range(plan_->planned(), *planned, call.output.size());
  });
}

void MulticastOperation::on_done(SessionId session) {
  if (multicasts_.is_done(session)) open_.erase(session);
  operation_.check_progress();
}

bool MulticastOperation::is_done() const {
  if (has_source_) return open_.empty() && (copied_ || operation_.members().size() == 1);
  return !multicasts_.receivers().empty() && open_.empty();
}

std::string MulticastOperation::describe_missing() const {
  std::vector<std::string> texts = multicasts_.unconfirmed();
  std::ranges::copy(multicasts_.unfinished(true), std::back_inserter(texts));
  if (!texts.empty()) return fmt::format("{}", fmt::join(texts, "; "));
  return fmt::format("nothing arrived from the source{}; has it called the operation?", source_);
}

}  // namespace square
