#include "node/core.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "node/operations/check_call.h"

namespace square {

DataPlane::Core::Core(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor)
    : shared_context_(new NodeContext{std::move(options), clock, transport, executor}),
      context_(*shared_context_),
      flush_(executor, [this](const StreamKey& key) { fill_sources(key); }),
      relayed_sums_(shared_context_, outgoing_,
                    {[this](const LocalStream& stream, const Frame& frame) { answer(stream, frame); },
                     [this](CollectiveId collective, OperationId operation, const Status& cause) {
                       announce_failure({collective, operation}, cause);
                     }}) {
  context_.hold_limit_bytes = context_.options.window_bytes / 2;
}

DataPlane::Core::~Core() {
  for (const auto& [key, operation] : operations_) operation->abandon();
  context_.is_gone = true;
}

void DataPlane::Core::on_strand(std::function<void(Core&)> task) {
  context_.executor.post(life_.bind([this, task = std::move(task)] { task(*this); }));
}

bool DataPlane::Core::Collective::has_finished(OperationId operation) const {
  return operation.value() < all_finished_below || finished.contains(operation.value());
}

void DataPlane::Core::set_members(CollectiveId id, const std::string& group, std::vector<Rank> ranks) {
  Collective& collective = collectives_[id];
  collective.group = group;
  collective.ranks = std::move(ranks);
  for (const auto& [other_id, other] : collectives_) {
    if (other.group == group && other.failure && !collective.failure) collective.failure = other.failure;
  }
  for (const auto& [key, operation] : operations_) {
    if (key.collective == id) operation->set_member_count(collective.ranks.size());
  }
}

// What another member calls first is of the group, too, before the members here know of it: so they are
// told of its failure, and their calls are compared with it.
void DataPlane::Core::learn_groups(const Plan& plan) {
  for (const PlanCollective& planned : plan.collectives) {
    if (planned.group.empty()) continue;
    Collective& collective = collectives_[planned.id];
    if (collective.group.empty()) collective.group = planned.group;
  }
}

// After a failure the group's next operation fails on all, whichever collective it is.
void DataPlane::Core::poison(const OperationKey& key, const Status& cause) {
  Collective& collective = collectives_[key.collective];
  if (collective.failure) return;
  collective.failure = cause;
  collective.failed_operation = key.operation;
  std::vector<CollectiveId> poisoned{key.collective};
  for (auto& [id, other] : collectives_) {
    if (collective.group.empty() || other.group != collective.group || other.failure) continue;
    other.failure = cause;
    poisoned.push_back(id);
  }
  for (const CollectiveId id : poisoned) {
    fail_all(id, cause);
    fail_watches(id, cause);
  }
}

void DataPlane::Core::fail_all(CollectiveId collective, const Status& cause) {
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (key.collective == collective) operation->fail(cause, true);
  }
}

// Does the plan give this node the part that the call asks for?
Status DataPlane::Core::check_part(const Plan& plan, const MemberOperation& call) const {
  const auto self = plan.find_node(context_.options.name);
  bool any = false;
  for (const PlanSession& session : plan.sessions) {
    if (session.collective != call.collective) continue;
    any = true;
    const bool is_member = std::ranges::find(session.members, self) != session.members.end();
    if (call.is_root ? self == session.root : is_member) return Status::ok();
  }
  if (!any) return Status::ok();  // all members live on one node
  return invalid_argument(fmt::format("no session of collective {} {} node \"{}\"", call.collective.value(),
                                      call.is_root ? "starts at" : "reaches", context_.options.name));
}

void DataPlane::Core::post(MemberOperation call) {
  const OperationKey key{call.collective, call.operation};
  Collective& collective = collectives_[call.collective];
  const auto refuse_call = [&](const Status& why) {
    if (call.done) call.done(why);
  };
  if (is_stopping_)
    return refuse_call(cancelled(fmt::format("node \"{}\" is stopping", context_.options.name)));
  if (collective.failure) {
    // A late call of the operation that failed gets the cause itself.
    if (collective.failed_operation == call.operation) return refuse_call(*collective.failure);
    return refuse_call(
        failed_precondition(fmt::format("collective {} failed before ({}); make a new group",
                                        call.collective.value(), collective.failure->to_string())));
  }
  if (std::ranges::find(collective.ranks, call.rank) == collective.ranks.end()) {
    return refuse_call(
        invalid_argument(fmt::format("rank {} is not a member of collective {} on node \"{}\"",
                                     call.rank.value(), call.collective.value(), context_.options.name)));
  }
  const auto plan = active_ ? plans_.at(*active_) : nullptr;
  if (!plan || plan->plan().find_collective(call.collective) == nullptr) {
    return refuse_call(not_found(fmt::format("no active plan on node \"{}\" knows collective {}",
                                             context_.options.name, call.collective.value())));
  }
  const auto already = [&] {
    return refuse_call(
        invalid_argument(fmt::format("rank {} has called operation {} of collective {} already",
                                     call.rank.value(), call.operation.value(), call.collective.value())));
  };
  if (collective.has_finished(call.operation)) return already();
  if (const Status part = check_part(plan->plan(), call); !part.is_ok()) return refuse_call(part);
  if (const Status right = check_call(call, plan->plan()); !right.is_ok()) return refuse_call(right);
  const auto operation = open_operation(key, *plan);
  if (!operation) {
    return refuse_call(resource_exhausted(fmt::format("more than {} operations are open on node \"{}\"",
                                                      kMaxOpenOperations, context_.options.name)));
  }
  if (operation->has_posted(call.rank)) return already();
  // Before any buffer is compared: whoever called something else must hear that, not of sizes.
  const bool agrees = compare_calls(key, fmt::format("rank {}", call.rank.value()), call.call) &&
                      note_call(key, call.rank, call.call);
  if (!agrees) return refuse_call(*collective.failure);
  operation->post(std::move(call), plan);
  await_lost_links(key, plan, context_.clock.now());
}

void DataPlane::Core::cancel(const OperationKey& key) {
  const auto found = operations_.find(key);
  if (found == operations_.end()) return;
  const auto operation = found->second;
  operation->fail(
      cancelled(fmt::format("a member on node \"{}\" cancelled the operation", context_.options.name)), true);
}

void DataPlane::Core::fail(OperationKey key, const Status& cause) {
  const Collective& collective = collectives_[key.collective];
  if (is_stopping_ || collective.failure) return;
  while (collective.has_finished(key.operation)) key.operation = OperationId(key.operation.value() + 1);
  announce_failure(key, cause);
}

std::shared_ptr<const InstalledPlan> DataPlane::Core::plan_of(Epoch epoch) {
  const auto found = plans_.find(epoch);
  return found == plans_.end() ? nullptr : found->second;
}

std::shared_ptr<Operation> DataPlane::Core::open_operation(const OperationKey& key,
                                                           const InstalledPlan& plan) {
  const auto found = operations_.find(key);
  if (found != operations_.end()) return found->second;
  if (operations_.size() >= kMaxOpenOperations) return nullptr;
  const auto operation = std::make_shared<Operation>(shared_context_, *this, key,
                                                     plan.plan().find_collective(key.collective)->op);
  operation->set_member_count(collectives_[key.collective].ranks.size());
  operations_.emplace(key, operation);
  tell_watches(key, Status::ok());
  return operation;
}

void DataPlane::Core::on_finished(const OperationKey& key, const Status& outcome) {
  operations_.erase(key);
  forget_calls(key);
  Collective& collective = collectives_[key.collective];
  if (outcome.is_ok()) {
    collective.finished.insert(key.operation.value());
    while (collective.finished.erase(collective.all_finished_below) == 1) ++collective.all_finished_below;
  } else {
    poison(key, outcome);
  }
  confirm_installs();
  finish_stop_if_quiet();
}

void DataPlane::Core::announce_failure(const OperationKey& key, const Status& cause) {
  const bool is_first = !collectives_[key.collective].failure;
  poison(key, cause);
  if (is_first) {
    log(LogLevel::kWarning,
        {.component = "node", .node = context_.options.name, .collective = key.collective},
        "{}: collective {}: {}", context_.options.name, key.collective.value(), cause.to_string());
  }
  std::set<SessionId> told;
  for (const auto& [epoch, plan] : plans_) {
    for (const PlanSession* session : plan->sessions_of(key.collective)) {
      const Abort abort{session->id, key.operation, 0, cause};
      if (!remember(abort) && !told.contains(session->id)) continue;
      told.insert(session->id);
      pass_abort(*plan, abort, "");
    }
  }
}

void DataPlane::Core::stop(std::function<void()> stopped) {
  if (is_stopping_) return stopped();
  is_stopping_ = true;
  stopped_ = std::move(stopped);
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    operation->fail(cancelled(fmt::format("node \"{}\" stopped", context_.options.name)), true);
  }
  while (!watches_.empty()) {
    tell_watches(watches_.begin()->first,
                 cancelled(fmt::format("node \"{}\" stopped", context_.options.name)));
  }
  context_.executor.post_at(context_.clock.now() + kDrainTime, life_.bind([this] {
    if (stopped_) std::exchange(stopped_, nullptr)();
  }));
  finish_stop_if_quiet();
}

void DataPlane::Core::finish_stop_if_quiet() {
  if (!is_stopping_ || !stopped_ || !operations_.empty()) return;
  const auto is_idle = [](const auto& entry) { return entry.second->is_idle(); };
  if (!std::ranges::all_of(outgoing_, is_idle) || !std::ranges::all_of(incoming_, is_idle)) return;
  std::exchange(stopped_, nullptr)();
}

}  // namespace square
