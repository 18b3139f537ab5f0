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

void run_all(Deferred& deferred) {
  for (const auto& action : deferred) action();
  deferred.clear();
}

// What the members of the plan's collectives say that they have sent.
void note_uses(const v1::Heartbeat& beat, const Plan& plan, DemandMeter& demand, DemandMeter::TimePoint now) {
  for (const v1::CollectiveUse& use : beat.used()) {
    const CollectiveId collective(use.collective());
    const PlanCollective* const planned = plan.find_collective(collective);
    if (planned == nullptr || planned->sessions.empty()) continue;
    // Every member tells of the same operations.
    const PlanSession* const session = plan.find_session(planned->sessions.front());
    demand.note(collective, static_cast<double>(use.bytes()) / static_cast<double>(session->members.size()),
                now);
  }
}

// What is used more or less than before gets another part of its tenant's share. Returns whether that is so.
bool absorb_demand(DemandMeter& demand, PlanningState& state) {
  const DemandWeights& weights =
      demand.update(state.registry.collectives_by_tenant(), DemandMeter::TimePoint::clock::now());
  if (weights == state.demand) return false;
  state.demand = weights;
  log(LogLevel::kInfo, "controller", "collectives are used in other parts than before: plans again");
  return true;
}

// Who registers a name says what it closed under it: a controller that was restarted may not have heard.
void note_closed_before(const Demand& demand, ClosedParts& closed) {
  const GroupSpec* const group = std::get_if<GroupSpec>(&demand);
  if (group == nullptr || group->closed_number == 0) return;
  closed.note(group->registrant, group->name, group->closed_number);
}

void log_plan(const Plan& plan) {
  log(LogLevel::kInfo, {.component = "controller", .epoch = plan.epoch},
      "plan {}: {} collectives, {} sessions, {}{}, {:.3g} s to solve", plan.epoch.value(),
      plan.collectives.size(), plan.sessions.size(), plan.policy, plan.provisional ? " (provisional)" : "",
      plan.solve_seconds);
}

// To which what runs moves at once.
PublishedPlanPtr with_moves(const PublishedPlan& made) {
  return std::make_shared<const PublishedPlan>(PublishedPlan{made.plan, made.event, true});
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::create(Duration lease, Duration install_timeout,
                                                         Scenario scenario,
                                                         std::unique_ptr<store::Store> store) {
  if (lease <= Duration{0} || install_timeout <= Duration{0}) {
    return invalid_argument("lease and install_timeout must be positive");
  }
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  const bool open = scenario.topology.node_count() == 0;
  PlanningState state{scenario.name, scenario.topology, {}, scenario.tenants, GroupRegistry(scenario), {}};
  SQUARE_RETURN_IF_ERROR(state.set_policy(scenario.policy));
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(bounded(lease), bounded(install_timeout), std::move(state), open, std::move(store)));
  SQUARE_RETURN_IF_ERROR(coordinator->take_up());
  coordinator->thread_ = std::thread([self = coordinator.get()] { self->run(); });
  return coordinator;
}

Coordinator::Coordinator(Duration lease, Duration install_timeout, PlanningState state, bool open,
                         std::unique_ptr<store::Store> store)
    : state_(std::move(state)),
      succession_(std::move(store), open),
      planner_(succession_.origin(),
               [this] {
                 const std::lock_guard lock(mutex_);
                 note_work();
               }),
      members_(lease),
      publication_(members_, install_timeout),
      requests_(install_timeout) {
  if (open) open_.emplace();
}

// What the store has, and the first plan. Nobody else knows of this object yet.
Status Coordinator::take_up() {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, succession_.take_up(state_, planner_));
  expect(nodes);
  if (!open_ || !state_.registry.is_empty()) {
    SQUARE_ASSIGN_OR_RETURN(PublishedPlanPtr first, planner_.make(state_.scenario()));
    planner_.note_published(*first);
    // Those that may come back are waited for.
    nodes.empty() ? publication_.start_with(first) : publication_.begin(first, Clock::now());
  }
  return succession_.begin(state_, planner_);
}

// They have not come yet, and may be gone.
void Coordinator::expect(const std::vector<std::string>& nodes) {
  const TimePoint now = Clock::now();
  for (const std::string& node : nodes) {
    if (members_.expect(node, now)) absences_.note_lost(node, now);
  }
}

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
    const Status reason = unavailable("the controller stopped");
    requests_.fail_all(reason, deferred);
    members_.close_all(reason, deferred);
    planner_.stop();
    wake_condition_.notify_all();
    changed_.notify_all();
  }
  run_all(deferred);
}

Status Coordinator::join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line) {
  SQUARE_RETURN_IF_ERROR(check_hello(hello));
  std::shared_ptr<NodeLine> replaced;
  {
    const std::lock_guard lock(mutex_);
    SQUARE_RETURN_IF_ERROR(admit_member(hello));
    const TimePoint now = Clock::now();
    Members::Joined joined = members_.join(hello, line, now);
    replaced = std::move(joined.replaced);
    if (succession_.note(hello, joined.member)) note_work();
    publication_.greet(joined.member, now);
    absences_.note_line(hello.node(), publication_.active() != nullptr);
    if (open_) open_->join(hello.node(), state_.topology);
    if (open_) note_work();  // also for registrations that wait for this node
    wake();
  }
  if (replaced) replaced->close(aborted("the same process has connected again"), true);
  return {};
}

Status Coordinator::admit_member(const v1::Hello& hello) {
  const std::string& name = hello.node();
  if (stopping_) return unavailable("the controller is stopping");
  if (!open_ && !state_.topology.find_node(name)) {
    return not_found(fmt::format("the controller's topology has no node \"{}\"", name));
  }
  SQUARE_RETURN_IF_ERROR(succession_.check(hello, state_, has_plan()));
  SQUARE_ASSIGN_OR_RETURN(const bool yielded, members_.yield_name(hello));
  if (yielded) note_departure(name);
  if (open_ && !members_.contains(name)) return OpenOverlay::check_room(members_.size());
  return {};
}

void Coordinator::heartbeat(const std::string& node, const NodeLine* line, const v1::Heartbeat& beat) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = Clock::now();
  if (members_.hear(node, line, now) == nullptr) return;
  for (const std::string& peer : beat.heard()) members_.hear_of(peer, now);
  if (beat.used().empty()) return;
  if (publication_.active()) note_uses(beat, *publication_.active()->plan, demand_, now);
  if (now < next_demand_) return;
  next_demand_ = now + kDemandInterval;
  note_work();
}

void Coordinator::installed(const std::string& node, const NodeLine* line, Epoch epoch) {
  const std::lock_guard lock(mutex_);
  Member* const member = members_.hear(node, line, Clock::now());
  if (member == nullptr || !publication_.confirm(*member, epoch)) return;
  // An older plan than the active one it may have had before.
  const bool is_current = publication_.active() && epoch >= publication_.active()->plan->epoch;
  if (is_current && absences_.note_installed(node)) note_work();
  wake();
}

void Coordinator::closed(const std::string& node, const NodeLine* line, const v1::Closed& part) {
  const std::lock_guard lock(mutex_);
  const Member* const member = members_.hear(node, line, Clock::now());
  if (member == nullptr) return;
  if (part.group().size() > kMaxGroupNameBytes) return;
  // What the node registers from now on is looked at after that.
  closed_.note(node, part.group(), part.number());
  succession_.note_closed(node, part.group());
  auto heard = std::make_shared<v1::ControllerEvent>();
  *heard->mutable_closed() = part;
  member->line->send(std::move(heard));
  note_work();
}

void Coordinator::lost(const std::string& node, const NodeLine* line) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = Clock::now();
  if (!members_.lose(node, line, now)) return;
  absences_.note_lost(node, now);
  wake();
}

void Coordinator::goodbye(const std::string& node, const NodeLine* line) {
  const std::lock_guard lock(mutex_);
  if (members_.hear(node, line, Clock::now()) == nullptr) return;
  members_.leave(node, "it left");
  note_departure(node);
}

void Coordinator::submit(Demand demand, Reply reply) {
  Status refused;
  {
    const std::lock_guard lock(mutex_);
    note_closed_before(demand, closed_);
    refused = stopping_ ? unavailable("the controller stopped")
                        : requests_.add(std::move(demand), reply, Clock::now());
    if (refused.is_ok()) return note_work();
  }
  reply(refused);
}

PublishedPlanPtr Coordinator::active() const {
  const std::lock_guard lock(mutex_);
  return publication_.active();
}

std::vector<NodeInformation> Coordinator::nodes() const {
  const std::lock_guard lock(mutex_);
  return members_.list(state_.topology,
                       [this](const std::string& name) { return open_ && open_->is_gone(name); });
}

Status Coordinator::wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const {
  std::unique_lock lock(mutex_);
  std::vector<std::string> missing;
  changed_.wait_until(lock, Clock::now() + bounded(timeout), [&] {
    missing = publication_.missing(names);
    return stopping_ || missing.empty();
  });
  if (missing.empty()) return {};
  if (stopping_) return unavailable("the controller stopped");
  return deadline_exceeded(
      fmt::format("after {:.3g} s these nodes have not joined and installed the plan: {}",
                  to_seconds(timeout), fmt::join(missing, ", ")));
}

void Coordinator::note_departure(const std::string& node) {
  if (!open_) return note_away(node);
  absences_.forget(node);
  open_->leave(node);
  note_work();
}

void Coordinator::note_away(const std::string& node) {
  if (absences_.note_away(node)) note_work();
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

void Coordinator::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_ = false;
    Deferred deferred;
    expire(deferred);
    if (absences_.fade(Clock::now())) note_work();
    if (publication_.is_under_way()) settle(deferred);
    if (!publication_.is_under_way() && has_work_) begin(lock, deferred);
    if (!deferred.empty() || is_deposed_) {
      lock.unlock();
      run_all(deferred);
      if (is_deposed_) return stop();
      lock.lock();
      continue;
    }
    wake_condition_.wait_until(lock, next_wake(), [this] { return wake_ || stopping_; });
  }
}

Coordinator::TimePoint Coordinator::next_wake() const {
  TimePoint next = Clock::now() + kLongestSleep;
  next = members_.next_end(next);
  next = publication_.next_end(next);
  next = absences_.next_end(next);
  if (has_work_) return next;
  if (retry_) next = std::min(next, *retry_);
  next = closed_.next_end(next);
  // What is still pending without work at hand waits for its nodes.
  return requests_.next_end(next);
}

void Coordinator::expire(Deferred& deferred) {
  const TimePoint now = Clock::now();
  for (const std::string& name : members_.expire(now, deferred)) note_departure(name);
  const bool waited_enough = requests_.next_end(TimePoint::max()) <= now || (retry_ && *retry_ <= now);
  if ((waited_enough || closed_.is_due(now)) && !has_work_) note_work();
}

void Coordinator::settle(Deferred& deferred) {
  const std::optional<Activation> activation = publication_.settle(Clock::now(), deferred);
  if (!activation) return;
  for (const std::string& late : activation->late) {
    const Member* const member = members_.find(late);
    if (member != nullptr && member->is_late) note_away(late);
  }
  requests_.answer_planned(*activation, deferred);
  wake();
}

// In an overlay without a topology, or after a restart, a member may register before another has joined.
bool Coordinator::must_wait_for_nodes(const GroupSpec& group) const {
  return std::ranges::any_of(group.nodes, [&](const std::string& node) {
    // Who is expected may know the group and its numbers.
    return members_.is_expected(node) || (open_ && !state_.topology.find_node(node));
  });
}

void Coordinator::begin(std::unique_lock<std::mutex>& lock, Deferred& deferred) {
  has_work_ = false;
  bool replan = std::exchange(retry_, std::nullopt).has_value();
  replan = absorb_pasts(deferred) || replan;
  const TimePoint now = Clock::now();
  closed_.absorb(
      state_.registry, [this](const std::string& name) { return members_.contains(name); }, now);
  replan = absorb_membership() || closed_.is_due(now) || replan;
  replan = std::exchange(plan_again_, false) || replan;
  const bool other_use = absorb_demand(demand_, state_);
  const std::vector<const Demand*> demands =
      requests_.take_batch(now, [this](const GroupSpec& group) { return must_wait_for_nodes(group); });
  const bool is_due = replan || other_use || !demands.empty();
  // The batch and `state_` change on this thread only.
  lock.unlock();
  std::optional<Admission> admission;
  if (is_due) {
    admission = admit(state_, demands, replan || other_use,
                      [this](const Scenario& scenario) { return planner_.make(scenario); });
  }
  // What was asked for may change nothing, and the better plan have come meanwhile.
  const bool has_none = !admission || (!admission->next && admission->replan.is_ok());
  const bool is_better = has_none && take_better(admission);
  if (admission) keep(*admission, replan || other_use || is_better);
  lock.lock();
  members_.look(Clock::now());
  if (!admission || stopping_) return;
  // A better plan is one of what was planned before, groups that have ended since included.
  if (!is_better && (admission->next || !admission->replan.is_ok())) closed_.note_planned();
  publish(deferred, *std::move(admission));
}

// The policy's own plan in the place of the provisional one, when it is ready.
bool Coordinator::take_better(std::optional<Admission>& admission) {
  std::optional<Result<PublishedPlanPtr>> better = planner_.take_better();
  if (!better) return false;
  if (!better->is_ok()) {
    log(LogLevel::kError, "controller", "the provisional plan stays: {}", better->status().to_string());
    return false;
  }
  if (!admission) admission = Admission{state_, nullptr, false, {}, {}};
  admission->next = **std::move(better);
  admission->is_whole = is_whole_;
  return true;
}

// Before anybody is told. What the store does not take is not there: it is tried again.
void Coordinator::keep(Admission& admission, bool is_wanted) {
  const Status kept = succession_.keep(admission, planner_);
  if (kept.is_ok()) return;
  log(LogLevel::kError, "controller", "{}", kept.message());
  is_deposed_ = kept.code() == StatusCode::kFailedPrecondition;
  if (admission.next) planner_.drop();
  admission.state = state_;
  admission.next = nullptr;
  for (Verdict& verdict : admission.verdicts) {
    if (verdict.status.is_ok()) verdict = {kept, {}};
  }
  if (!is_wanted) return;
  retry_ = Clock::now() + kStoreRetry;
  closed_.note_planned();  // the retry plans without them
}

// What nodes bring from an earlier controller goes on here.
bool Coordinator::absorb_pasts(Deferred& deferred) {
  bool replan = false;
  const Succession::Absorbed absorbed = succession_.absorb(state_, planner_, has_plan());
  for (const Succession::Brought& brought : absorbed.brought) {
    const Member* const member = members_.find(brought.node);
    if (!brought.right.is_ok() && member != nullptr && member->line != nullptr) {
      deferred.push_back([line = member->line, why = brought.right] { line->close(why, false); });
    }
    replan = replan || brought.is_news;
    expect(brought.nodes);
    for (const v1::Closed& part : brought.closed) closed_.note(brought.node, part.group(), part.number());
  }
  const auto is_there = [this](const std::string& name) { return members_.contains(name); };
  for (const auto& [group, node] : absorbed.missing)
    replan = state_.registry.miss(group, node, is_there) || replan;
  return replan && (has_plan() || !state_.registry.is_empty());
}

bool Coordinator::absorb_membership() {
  bool replan = false;
  for (const Departure& departure : members_.take_departures()) {
    succession_.forget(departure.node);
    // A process that joined after the departure has no part in the groups of the one that left.
    const auto still_there = [&](const std::string& name) { return members_.was_there(name, departure); };
    for (const std::string& group : state_.registry.remove_abandoned(departure.node, still_there)) {
      log(LogLevel::kInfo, "controller", "group {}: its last member left, it is no longer planned", group);
      replan = true;
    }
  }
  // A node whose line broke may be dead or cut off: until it comes back, what can go around it does.
  replan = absences_.absorb(state_, gone()) || replan;
  return (open_ && open_->update(state_)) || replan;
}

void Coordinator::publish(Deferred& deferred, Admission admission) {
  if (!admission.replan.is_ok()) {
    log(LogLevel::kError, "controller", "cannot plan again, the old plan stays: {}",
        admission.replan.to_string());
  }
  requests_.judge(std::move(admission.verdicts), deferred);
  state_ = std::move(admission.state);
  if (admission.next) {
    const Plan& plan = *admission.next->plan;
    planner_.note_published(*admission.next);
    is_whole_ = admission.is_whole;
    plan_again_ = plan.provisional && !planner_.betters(*admission.next);
    if (plan_again_) note_work();
    log_plan(plan);
    if (absences_.note_published(state_, gone(), admission.is_whole)) {
      admission.next = with_moves(*admission.next);
    }
  }
  // Also without a plan of their own those admitted wait until the active one is installed.
  if (!admission.next && !publication_.active() && !requests_.has_planned()) return;
  publication_.begin(std::move(admission.next), Clock::now());
  wake();
}

}  // namespace square::controller
