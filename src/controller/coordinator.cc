#include "controller/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "controller/protocol.h"
#include "controller/uses.h"

namespace square::controller {
namespace {

// Wakes up for nothing once in a while rather than wait for a time that no clock holds.
constexpr Duration kLongestSleep = std::chrono::hours(1);

void run_all(Deferred& deferred) {
  for (const auto& action : deferred) action();
  deferred.clear();
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

// They have not come yet, and may be gone.
void expect_all(const std::vector<std::string>& nodes, Members& members, Absences& absences, TimePoint now) {
  for (const std::string& node : nodes) {
    if (members.expect(node, now)) absences.note_lost(node, now);
  }
}

// In an overlay without a topology (`grown` has those that have come), or after a restart, a member may
// register before another has joined.
bool must_wait_for_nodes(const GroupSpec& group, const Members& members, const Topology* grown) {
  // Its call has overtaken its line, on which it tells what runs, and who knows of that.
  if (!group.registrant.empty() && !members.contains(group.registrant)) return true;
  return std::ranges::any_of(group.nodes, [&](const std::string& node) {
    // Who is expected may know the group and its numbers.
    return members.is_expected(node) || (grown != nullptr && !grown->find_node(node));
  });
}

// What it says of groups that it is a member of.
v1::Goodbye known_of(const v1::Goodbye& goodbye, const std::string& node, const GroupRegistry& registry) {
  std::set<std::uint32_t> own;
  for (const auto& [name, group] : registry.groups()) {
    if (std::ranges::find(group->nodes, node) == group->nodes.end()) continue;
    for (const RegisteredCollective& collective : group->collectives) own.insert(collective.id.value());
  }
  v1::Goodbye known;
  for (const v1::FinishedOperations& one : goodbye.finished()) {
    if (own.erase(one.collective()) > 0) *known.add_finished() = one;
  }
  return known;
}

// In an open overlay a node that is gone has no links: no plan can have a new group of which it is a member.
void refuse_absent(Requests& requests, const GroupRegistry& registry, const Members& members,
                   Deferred& deferred) {
  const auto check = [&](const Demand& demand) -> Status {
    const GroupSpec* const group = std::get_if<GroupSpec>(&demand);
    if (group == nullptr || registry.groups().contains(group->name)) return {};
    return members.check_present(*group).with_context(fmt::format("group \"{}\"", group->name));
  };
  requests.refuse(check, deferred);
}

std::shared_ptr<const v1::ControllerEvent> heard_event(const v1::Closed& part) {
  auto heard = std::make_shared<v1::ControllerEvent>();
  *heard->mutable_closed() = part;
  return heard;
}

// The topology has them, and they have not come, or not come back: nobody else would say so.
std::vector<std::string> absent_of(const v1::BrokenLinks& report, const Members& members,
                                   const Topology& topology) {
  std::vector<std::string> absent;
  for (const std::string& peer : report.peers()) {
    if (!members.contains(peer) && topology.find_node(peer)) absent.push_back(peer);
  }
  return absent;
}

Status check_times(Duration lease, Duration install_timeout) {
  if (lease > Duration{0} && install_timeout > Duration{0}) return Status::ok();
  return invalid_argument("lease and install_timeout must be positive");
}

// To which what runs moves at once.
PublishedPlanPtr with_moves(const PublishedPlan& made) {
  PublishedPlan moving = made;
  moving.moves = true;
  return std::make_shared<const PublishedPlan>(std::move(moving));
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::create(Surroundings surroundings, Duration lease,
                                                         Duration install_timeout, Scenario scenario,
                                                         std::unique_ptr<store::Store> store) {
  SQUARE_RETURN_IF_ERROR(check_times(lease, install_timeout));
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  GroupRegistry registry(scenario, surroundings.granting);
  PlanningState state{scenario.name, scenario.topology, {}, scenario.tenants, std::move(registry), {}};
  SQUARE_RETURN_IF_ERROR(state.set_policy(scenario.policy));
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(std::move(surroundings), bounded(lease), bounded(install_timeout), std::move(state),
                      scenario.topology.node_count() == 0, std::move(store)));
  SQUARE_RETURN_IF_ERROR(coordinator->take_up());
  return coordinator;
}

Coordinator::Coordinator(Surroundings surroundings, Duration lease, Duration install_timeout,
                         PlanningState state, bool open, std::unique_ptr<store::Store> store)
    : surroundings_(std::move(surroundings)),
      agenda_(surroundings_.wake),
      state_(std::move(state)),
      succession_(std::move(store), open),
      planner_(succession_.origin(), surroundings_.plans([this] {
        const std::lock_guard lock(mutex_);
        agenda_.note(Urgency::kCanWait);
      })),
      members_(lease),
      publication_(members_, install_timeout),
      requests_(install_timeout) {
  if (open) open_.emplace();
}

// What the store has, and the first plan. Nobody else knows of this object yet.
Status Coordinator::take_up() {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, succession_.take_up(state_, planner_));
  expect_all(nodes, members_, absences_, time());
  if (!open_ || !state_.registry.is_empty()) {
    Admission made = admit(state_, {}, true, [this](const Scenario& one) { return planner_.make(one); });
    SQUARE_RETURN_IF_ERROR(made.replan);
    tell_set_aside(state_.registry, made.state.registry, members_);
    state_ = std::move(made.state);
    // Nodes may have had different plans of the controller before.
    const PublishedPlanPtr first = publication_.is_lacked() ? with_moves(*made.next) : std::move(made.next);
    planner_.note_published(*first, false);
    // Those that may come back are waited for.
    nodes.empty() ? publication_.start_with(first) : publication_.begin(first, time());
  }
  return succession_.begin(state_, planner_);
}

void Coordinator::stop() {
  Deferred deferred;
  std::unique_lock lock(mutex_);
  if (stopping_) return;
  stopping_ = true;
  const Status reason = unavailable("the controller stopped");
  requests_.fail_all(reason, deferred);
  regroupings_.fail_all(reason, deferred);
  members_.close_all(reason, deferred);
  planner_.stop();
  surroundings_.wake();
  lock.unlock();
  run_all(deferred);
}

Status Coordinator::join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line) {
  SQUARE_RETURN_IF_ERROR(check_hello(hello));
  std::shared_ptr<NodeLine> replaced;
  {
    const std::lock_guard lock(mutex_);
    SQUARE_RETURN_IF_ERROR(admit_member(hello));
    const TimePoint now = time();
    Members::Joined joined = members_.join(hello, line, now);
    replaced = std::move(joined.replaced);
    if (succession_.note(hello, joined.member, publication_.published())) agenda_.note();
    publication_.greet(joined.member, now);
    absences_.note_line(hello.node(), publication_.active() != nullptr);
    if (open_) open_->join(hello.node(), state_.topology);
    // Also for registrations that wait for this node.
    if (links_.note_heard(hello.node(), now) || open_) agenda_.note();
    surroundings_.wake();
  }
  if (replaced) replaced->close(aborted("the same process has connected again"), true);
  return {};
}

Status Coordinator::admit_member(const v1::Hello& hello) {
  if (stopping_) return unavailable("the controller is stopping");
  if (!open_ && !state_.topology.find_node(hello.node()))
    return not_found(fmt::format("the controller's topology has no node \"{}\"", hello.node()));
  SQUARE_RETURN_IF_ERROR(succession_.check(hello, state_, has_plan()));
  SQUARE_ASSIGN_OR_RETURN(const bool yielded, members_.yield_name(hello));
  if (yielded) note_departure(hello.node());
  return open_ && !members_.contains(hello.node()) ? OpenOverlay::check_room(members_.size()) : Status::ok();
}

void Coordinator::heartbeat(const std::string& node, const NodeLine* line, const v1::Heartbeat& beat) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = time();
  if (members_.hear(node, line, now) == nullptr) return;
  members_.note(node, beat, now);
  if (links_.note_heard(node, now)) agenda_.note();
  if (measurements_.note(node, beat, state_.topology, now)) agenda_.note(Urgency::kCanWait);
  if (beat.used().empty()) return;
  if (publication_.active()) note_uses(node, beat, *publication_.active()->plan, demand_, now, foreign_uses_);
  if (demand_.is_due(now)) agenda_.note(Urgency::kCanWait);
}

void Coordinator::broken_links(const std::string& node, const NodeLine* line, const v1::BrokenLinks& report) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = time();
  if (members_.hear(node, line, now) == nullptr) return;
  const v1::BrokenLinks known = known_of(report, members_, state_.topology);
  const Urgency urgency = links_.note(node, known, members_, now);
  if (refused_.note(node, known, members_, now)) agenda_.note();
  for (const std::string& peer : absent_of(report, members_, state_.topology))
    if (absences_.note_away(peer)) agenda_.note();
  agenda_.note(links_.note_heard(node, now) ? Urgency::kAtOnce : urgency);
  surroundings_.wake();  // somebody may have to say something by then
}

void Coordinator::installed(const std::string& node, const NodeLine* line, Epoch epoch, bool is_moving) {
  const std::lock_guard lock(mutex_);
  Member* const member = members_.hear(node, line, time());
  if (member == nullptr || !publication_.confirm(*member, epoch, time(), is_moving)) return;
  has_news_ = publication_.can_release() || has_news_;
  if ((!is_moving && publication_.is_current(epoch) && absences_.note_installed(node)) || has_news_)
    agenda_.note(Urgency::kCanWait);
  surroundings_.wake();
}

void Coordinator::lacking(const std::string& node, const NodeLine* line, Epoch epoch) {
  const std::lock_guard lock(mutex_);
  Member* const member = members_.hear(node, line, time());
  if (member != nullptr) publication_.send_whole(*member, epoch);
}

void Coordinator::closed(const std::string& node, const NodeLine* line, const v1::Closed& part) {
  const std::lock_guard lock(mutex_);
  const Member* const member = members_.hear(node, line, time());
  if (member == nullptr || part.group().size() > kMaxGroupNameBytes) return;
  // What the node registers from now on is looked at after that.
  if (!is_planted(Bug::kCloseUnheard)) closed_.note(node, part.group(), part.number());
  succession_.note_closed(node, part.group());
  member->line->send(heard_event(part));
  agenda_.note();
}

void Coordinator::lost(const std::string& node, const NodeLine* line) {
  const std::lock_guard lock(mutex_);
  if (!members_.lose(node, line, time())) return;
  absences_.note_lost(node, time());
  links_.note_lost(node);
  surroundings_.wake();
}

void Coordinator::goodbye(const std::string& node, const NodeLine* line, const v1::Goodbye& goodbye) {
  const std::lock_guard lock(mutex_);
  if (members_.hear(node, line, time()) == nullptr) return;
  members_.leave(node, "it left", known_of(goodbye, node, state_.registry));
  note_departure(node);
  if (state_.registry.uses(node)) absences_.note_left(node);
}

void Coordinator::submit(Demand demand, Reply reply) {
  std::unique_lock lock(mutex_);
  note_closed_before(demand, closed_);
  const Status refused =
      stopping_ ? unavailable("the controller stopped") : requests_.add(std::move(demand), reply, time());
  if (refused.is_ok()) return agenda_.note();
  lock.unlock();
  reply(refused);
}

void Coordinator::regroup(Regroup asked, Duration patience, RegroupReply reply) {
  std::unique_lock lock(mutex_);
  asked.end = time() + patience;
  const Status refused =
      stopping_ ? unavailable("the controller stopped") : regroupings_.add(std::move(asked), reply);
  if (refused.is_ok()) return agenda_.note();
  lock.unlock();
  reply(refused);
}

void Coordinator::refused(const std::string& node, const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (members_.last_address(node) != address) return;  // it is back, or elsewhere
  refused_.note_own(node, members_, time());
  surroundings_.wake();
}

PublishedPlanPtr Coordinator::active() const {
  const std::lock_guard lock(mutex_);
  return publication_.active();
}

std::vector<NodeInformation> Coordinator::nodes() const {
  const std::lock_guard lock(mutex_);
  return members_.list(state_.topology, [this](const std::string& name) { return is_gone(name); });
}

v1::ListLinksResponse Coordinator::links() const {
  const std::lock_guard lock(mutex_);
  return measurements_.list(state_.topology, state_.measured, time());
}

std::vector<Attendant> Coordinator::attendance() const {
  const std::lock_guard lock(mutex_);
  return take_attendance(members_, state_.topology, open_.has_value(),
                         [this](const std::string& name) { return is_gone(name); });
}

std::vector<std::string> Coordinator::missing(const std::vector<std::string>& names) const {
  const std::lock_guard lock(mutex_);
  return publication_.missing(names);
}

bool Coordinator::is_stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void Coordinator::note_departure(const std::string& node) {
  agenda_.note();  // also of a node that was away before: groups may end by it
  (void)links_.forget(node);
  refused_.forget(node);
  // While a group names it, it is in the topology of an open overlay, and relays nothing.
  !open_ || state_.registry.uses(node) ? (void)absences_.note_away(node) : absences_.forget(node);
  if (open_) open_->leave(node);
}

std::optional<TimePoint> Coordinator::step() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Deferred deferred;
    expire(deferred);
    if (absences_.fade(time())) agenda_.note();
    agenda_.note(links_.fade(members_, time()));
    settle(deferred);
    if (!publication_.is_under_way() && agenda_.is_due(publication_.rest_end(), time())) {
      has_news_ = absorb_pasts(deferred) || has_news_;
      // What others run that may be back at once must be in the next plan: it would end otherwise.
      if (!members_.return_end(time()) || is_planted(Bug::kPastIgnored)) begin(lock, deferred);
    }
    Succession::tell(state_.registry, members_);  // before the answers that let members end
    if (deferred.empty() && !is_deposed_) return next_wake();
    lock.unlock();
    run_all(deferred);
    if (is_deposed_) stop();
    lock.lock();
  }
  return std::nullopt;
}

TimePoint Coordinator::next_wake() const {
  TimePoint next = publication_.next_end(members_.next_end(time() + kLongestSleep));
  next = links_.next_end(absences_.next_end(refused_.next_end(members_, time(), next)));
  if (agenda_.is_urgent()) return std::min(next, members_.return_end(time()).value_or(next));
  if (retry_) next = std::min(next, *retry_);
  if (!agenda_.has_change()) next = measurements_.next_end(next);
  if (agenda_.has_change() && !publication_.is_under_way())
    next = std::min(next, std::max(publication_.rest_end(), members_.return_end(time()).value_or(time())));
  // What is still pending without work at hand waits for its nodes.
  if (publication_.has_quorum()) next = closed_.next_end(next);
  return requests_.next_end(time(), regroupings_.next_end(next));
}

void Coordinator::expire(Deferred& deferred) {
  const TimePoint now = time();
  for (const std::string& name : members_.expire(now, deferred)) note_departure(name);
  for (const std::string& name : refused_.judge(members_, now)) note_departure(name);
  members_.forget_silent([this](const std::string& name) { return state_.registry.uses(name); });
  if (publication_.look(now, deferred)) agenda_.note();
  const bool waited_enough = std::min(regroupings_.next_end(requests_.next_end(now, TimePoint::max())),
                                      retry_.value_or(TimePoint::max())) <= now;
  const bool has_closed = publication_.has_quorum() && closed_.is_due(now);
  if (!agenda_.is_urgent() && (waited_enough || has_closed)) agenda_.note();
  if (measurements_.next_end(TimePoint::max()) <= now && !agenda_.has_change())
    agenda_.note(Urgency::kCanWait);
}

void Coordinator::settle(Deferred& deferred) {
  const Settlement settlement = publication_.settle(time(), deferred);
  for (const std::string& away : settlement.away)
    if (absences_.note_away(away)) agenda_.note();
  requests_.note(settlement);
  if (settlement.activated) surroundings_.wake();
  const auto told = requests_.answer_planned([this](Epoch of) { return publication_.awaited(of); }, deferred);
  if (!absorb(told, state_.registry, members_.presence()) && !settlement.plan_again) return;
  has_news_ = true;
  agenda_.note();
}

void Coordinator::begin(std::unique_lock<std::mutex>& lock, Deferred& deferred) {
  agenda_.clear();
  bool replan = std::exchange(has_news_, false) | std::exchange(retry_, std::nullopt).has_value();
  // Groups without collectives need no plan, but only with one do nodes keep what the next controller asks
  // for.
  replan = (!has_plan() && !state_.registry.is_empty()) || replan;
  replan |= planner_.take_plan_again();
  const TimePoint now = time();
  closed_.absorb(state_.registry, members_.presence(), now);
  replan = absorb_membership() || closed_.is_due(now) || replan;
  surroundings_.watch(
      publication_.and_awaited(regroupings_.settle(state_.registry, members_, requests_, now, deferred)));
  replan = measurements_.absorb(state_.topology, state_.measured, now) || replan;
  has_news_ = replan && !publication_.has_quorum();
  if (!publication_.has_quorum()) return requests_.refuse_late(now, no_quorum(), deferred);
  if (open_) refuse_absent(requests_, state_.registry, members_, deferred);
  const std::vector<const Demand*> demands = requests_.take_batch(now, [this](const GroupSpec& group) {
    return must_wait_for_nodes(group, members_, open_ ? &state_.topology : nullptr);
  });
  const bool other_use = absorb_uses(demand_, state_, demands, now);
  retrials_.note_change(state_.registry, now);
  planner_.keep(publication_.kept());
  // The batch and `state_` change on this thread only.
  lock.unlock();
  std::optional<Admission> admission;
  if (replan || other_use || !demands.empty())
    admission = admit(state_, demands, replan || other_use,
                      [this](const Scenario& scenario) { return planner_.make(scenario); });
  // What was asked for may change nothing, and the better plan have come meanwhile.
  const bool has_none = !admission || (!admission->next && admission->replan.is_ok());
  const bool is_better = has_none && planner_.take_better(admission, state_);
  if (admission) keep(*admission, replan || other_use || is_better);
  lock.lock();
  members_.look(time());
  requests_.charge(time() - now, time());
  if (!admission || stopping_) return;
  // A better plan is one of what was planned before, groups that have ended since included.
  if (!is_better && (admission->next || !admission->replan.is_ok())) closed_.note_planned();
  publish(deferred, *std::move(admission));
}

// Before anybody is told. What the store did not take is tried again.
void Coordinator::keep(Admission& admission, bool is_wanted) {
  const Status kept = succession_.keep(admission, state_, planner_);
  if (kept.is_ok()) return;
  is_deposed_ = kept.code() == StatusCode::kFailedPrecondition;
  if (!is_wanted) return;
  retry_ = time() + kStoreRetry;
  closed_.note_planned();  // the retry plans without them
}

// What nodes bring from an earlier controller goes on here.
bool Coordinator::absorb_pasts(Deferred& deferred) {
  const Succession::Absorbed absorbed = succession_.absorb(state_, planner_, has_plan(), time());
  for (const auto& brought : absorbed.brought) expect_all(brought.nodes, members_, absences_, time());
  return Succession::spread(absorbed, state_, members_, closed_, deferred) &&
         (has_plan() || !state_.registry.is_empty());
}

bool Coordinator::absorb_membership() {
  bool replan = succession_.absorb_departures(state_, members_);
  // Until a node whose line broke is back, what can go around it does.
  replan = absences_.absorb(state_, gone()) || replan;
  replan = links_.absorb(state_, refused_.unreachable(members_)) || replan;
  return (open_ && open_->update(state_)) || replan;
}

void Coordinator::publish(Deferred& deferred, Admission admission) {
  planner_.note_replanned(admission.replan);
  requests_.judge(std::move(admission.verdicts), deferred);
  tell_set_aside(state_.registry, admission.state.registry, members_);
  state_ = std::move(admission.state);
  if (admission.next) {
    if (planner_.note_published(*admission.next, !admission.avoids_links())) agenda_.note(Urgency::kCanWait);
    log_plan(*admission.next->plan);
    const bool avoids_nodes = absences_.note_published(state_, gone(), admission.is_whole);
    const bool avoids_links = links_.note_published(state_, !admission.avoids_links());
    if (measurements_.take_moves() || avoids_nodes || avoids_links || publication_.must_move(*admission.next))
      admission.next = with_moves(*admission.next);
  } else if (admission.replan.is_ok() && planner_.note_kept()) {
    agenda_.note(Urgency::kCanWait);
  }
  // Also without a plan of their own those admitted wait until the active one is installed.
  if (!admission.next && !publication_.can_begin_again(retry_.has_value(), requests_.has_planned())) return;
  publication_.begin(std::move(admission.next), time());
  surroundings_.wake();
}

}  // namespace square::controller
