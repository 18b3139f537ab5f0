#include "controller/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

// Wakes up for nothing once in a while rather than wait for a time that no clock holds.
constexpr Duration kLongestSleep = std::chrono::hours(1);

Status refusal(const char* what, const std::vector<std::string>& nodes, Duration waited) {
  return deadline_exceeded(fmt::format("{} did not install the plan within {:.3g} s and {} disconnected: {}",
                                       what, to_seconds(waited), nodes.size() == 1 ? "was" : "were",
                                       fmt::join(nodes, ", ")));
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::create(Duration lease, Duration install_timeout,
                                                         Scenario scenario) {
  if (lease <= Duration{0} || install_timeout <= Duration{0}) {
    return invalid_argument("lease and install_timeout must be positive");
  }
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  const bool open = scenario.topology.node_count() == 0;
  PlanningState state{scenario.name, scenario.topology, {}, scenario.tenants, GroupRegistry(scenario), {}};
  SQUARE_RETURN_IF_ERROR(state.set_policy(scenario.policy));
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(bounded(lease), bounded(install_timeout), std::move(state), open));
  if (!open) {
    SQUARE_ASSIGN_OR_RETURN(coordinator->active_, coordinator->make(coordinator->state_.scenario()));
    coordinator->last_epoch_ = coordinator->active_->plan->epoch;
  }
  coordinator->thread_ = std::thread([self = coordinator.get()] { self->run(); });
  return coordinator;
}

Coordinator::Coordinator(Duration lease, Duration install_timeout, PlanningState state, bool open)
    : lease_(lease), install_timeout_(install_timeout), open_(open), state_(std::move(state)) {}

Coordinator::~Coordinator() {
  stop();
  join_thread();
}

void Coordinator::stop() {
  Deferred deferred;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    std::vector<RequestPtr> requests = pending_;
    requests.insert(requests.end(), working_.begin(), working_.end());
    if (change_) {
      for (const auto& [request, verdict] : change_->requests) requests.push_back(request);
    }
    for (const RequestPtr& request : requests)
      answer(request, unavailable("the controller stopped"), deferred);
    for (const auto& [name, member] : members_) {
      if (!member.line) continue;
      deferred.push_back([line = member.line] { line->close(unavailable("the controller stopped"), false); });
    }
    members_.clear();
    wake_condition_.notify_all();
    changed_.notify_all();
  }
  for (const auto& action : deferred) action();
}

void Coordinator::join_thread() {
  if (thread_.joinable()) thread_.join();
}

void Coordinator::submit(Demand demand, Reply reply) {
  Status refused;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      refused = unavailable("the controller stopped");
    } else if (pending_.size() >= kMaxPendingRequests) {
      refused =
          resource_exhausted(fmt::format("{} registrations are waiting already; try later", pending_.size()));
    } else {
      pending_.push_back(
          std::make_shared<Request>(Request{std::move(demand), std::move(reply), Clock::now()}));
      note_work();
      return;
    }
  }
  reply(refused);
}

PublishedPlanPtr Coordinator::active() const {
  const std::lock_guard lock(mutex_);
  return active_;
}

void Coordinator::note_work() {
  has_work_ = true;
  wake();
}

void Coordinator::wake() {
  wake_ = true;
  wake_condition_.notify_one();
  changed_.notify_all();
}

void Coordinator::answer(const RequestPtr& request, Result<Answer> result, Deferred& deferred) {
  if (std::exchange(request->answered, true)) return;
  deferred.push_back([request, result = std::move(result)] { request->reply(result); });
}

void Coordinator::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_ = false;
    Deferred deferred;
    expire(deferred);
    if (change_) settle(deferred);
    if (!change_ && has_work_) begin(lock, deferred);
    if (!deferred.empty()) {
      lock.unlock();
      for (const auto& action : deferred) action();
      deferred.clear();
      lock.lock();
      continue;
    }
    wake_condition_.wait_until(lock, next_wake(), [this] { return wake_ || stopping_; });
  }
}

Coordinator::TimePoint Coordinator::next_wake() const {
  TimePoint next = Clock::now() + kLongestSleep;
  for (const auto& [name, member] : members_) {
    next = std::min(next, member.lease_end);
    if (change_ && member.line && change_->next && member.installed < change_->next->plan->epoch) {
      next = std::min(next, member.install_end);
    }
  }
  for (const RequestPtr& request : pending_) {
    // What is still pending without work at hand waits for its nodes.
    if (!has_work_) next = std::min(next, request->received + install_timeout_);
  }
  return next;
}

// First phase: waits until every connected node has installed the plan, or is given up.
void Coordinator::settle(Deferred& deferred) {
  const TimePoint now = Clock::now();
  const Epoch epoch = change_->next ? change_->next->plan->epoch : Epoch(0);
  bool waiting = false;
  for (auto& [name, member] : members_) {
    if (!member.line || member.installed >= epoch) continue;
    if (now < member.install_end) {
      waiting = true;
      continue;
    }
    log(LogLevel::kWarning, {.component = kComponent, .node = name, .epoch = epoch},
        "node {} did not install plan {} within {:.3g} s and is disconnected", name, epoch.value(),
        to_seconds(install_timeout_));
    change_->late.push_back(name);
    deferred.push_back([line = std::exchange(member.line, nullptr), epoch] {
      line->close(deadline_exceeded(fmt::format("plan {} was not installed in time", epoch.value())), true);
    });
  }
  if (!waiting) finish_change(deferred);
}

// Second phase.
void Coordinator::finish_change(Deferred& deferred) {
  if (change_->next && change_->next != active_) {
    active_ = change_->next;
    log(LogLevel::kInfo, {.component = kComponent, .epoch = active_->plan->epoch}, "plan {} is active",
        active_->plan->epoch.value());
  }
  for (auto& [name, member] : members_) activate(member);
  const Epoch epoch = active_ ? active_->plan->epoch : Epoch(0);
  for (auto& [request, verdict] : change_->requests) {
    std::vector<std::string> late;
    const GroupSpec* const group = std::get_if<GroupSpec>(&request->demand);
    for (const std::string& name : change_->late) {
      if (!group || std::find(group->nodes.begin(), group->nodes.end(), name) != group->nodes.end()) {
        late.push_back(name);
      }
    }
    if (late.empty()) {
      answer(request, Answer{std::move(verdict.collectives), epoch}, deferred);
    } else {
      answer(request, refusal(group ? "members of the group" : "nodes", late, install_timeout_), deferred);
    }
  }
  change_.reset();
  wake();
}

// In an overlay without a topology a member may register before another has joined.
bool Coordinator::must_wait_for_nodes(const Request& request) const {
  const GroupSpec* const group = std::get_if<GroupSpec>(&request.demand);
  if (!open_ || group == nullptr || Clock::now() >= request.received + install_timeout_) return false;
  return std::any_of(group->nodes.begin(), group->nodes.end(),
                     [&](const std::string& node) { return !state_.topology.find_node(node); });
}

void Coordinator::take_batch() {
  std::vector<RequestPtr> waiting;
  for (RequestPtr& request : pending_) {
    (must_wait_for_nodes(*request) ? waiting : working_).push_back(std::move(request));
  }
  pending_ = std::move(waiting);
}

void Coordinator::begin(std::unique_lock<std::mutex>& lock, Deferred& deferred) {
  has_work_ = false;
  const bool replan = absorb_membership();
  const bool other_use = absorb_demand();
  take_batch();
  if (!replan && !other_use && working_.empty()) return;
  std::vector<const Demand*> demands;
  for (const RequestPtr& request : working_) demands.push_back(&request->demand);
  // `working_` and `state_` change on this thread only.
  lock.unlock();
  Admission admission = admit(state_, demands, replan || other_use,
                              [this](const Scenario& scenario) { return make(scenario); });
  lock.lock();
  if (!stopping_) publish(deferred, std::move(admission));
}

void Coordinator::publish(Deferred& deferred, Admission admission) {
  if (!admission.replan.is_ok()) {
    log(LogLevel::kError, kComponent, "cannot plan again, the old plan stays: {}",
        admission.replan.to_string());
  }
  Change change{admission.next ? admission.next : active_, {}, {}};
  for (std::size_t i = 0; i < working_.size(); ++i) {
    Verdict& verdict = admission.verdicts[i];
    if (verdict.status.is_ok()) {
      change.requests.emplace_back(working_[i], std::move(verdict));
    } else {
      answer(working_[i], verdict.status, deferred);
    }
  }
  working_.clear();
  state_ = std::move(admission.state);
  if (admission.next) {
    const Plan& plan = *admission.next->plan;
    last_epoch_ = plan.epoch;
    log(LogLevel::kInfo, {.component = kComponent, .epoch = plan.epoch},
        "plan {}: {} collectives, {} sessions, {}, {:.3g} s to solve", plan.epoch.value(),
        plan.collectives.size(), plan.sessions.size(), plan.policy, plan.solve_seconds);
  }
  if (!change.next && change.requests.empty()) return;
  for (auto& [name, member] : members_) {
    if (!member.line || !change.next) continue;
    send_plan(member, change.next);
    member.install_end = Clock::now() + install_timeout_;
  }
  change_ = std::move(change);
  wake();
}

Result<PublishedPlanPtr> Coordinator::make(const Scenario& scenario) {
  SQUARE_ASSIGN_OR_RETURN(PlanResult result, planner_.plan(scenario));
  // The last plan made need not be the one that was published.
  result.plan.changes.reset();
  renumber_sessions(result.plan, numbers_);
  result.plan.epoch = Epoch(last_epoch_.value() + 1);
  std::string json = to_json(result.plan);
  if (json.size() > kMaxPlanBytes) {
    return resource_exhausted(
        fmt::format("the plan takes {} bytes, more than {}", json.size(), kMaxPlanBytes));
  }
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_plan()->set_epoch(result.plan.epoch.value());
  event->mutable_plan()->set_json(std::move(json));
  return std::make_shared<const PublishedPlan>(
      PublishedPlan{std::make_shared<const Plan>(std::move(result.plan)), std::move(event)});
}

}  // namespace square::controller
