#include "controller/succession.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "controller/adoption.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

// Two controllers that know nothing of one another begin with other numbers, most likely.
std::uint32_t first_number(const PlanOrigin& origin) {
  constexpr std::uint32_t kRange = 1'000'000;
  constexpr std::uint32_t kRanges = 4'000;
  return kRange * (1 + static_cast<std::uint32_t>(origin.store % kRanges));
}

// Its newest plan was made by an earlier controller.
bool has_other_past(const v1::Hello& hello, const PlanOrigin& origin) {
  return hello.has_past() && PlanOrigin{hello.past().store(), hello.past().term()} != origin;
}

// Of the past's nodes those that the state has.
std::vector<std::string> nodes_of(const v1::Past& past, const PlanningState& state) {
  std::vector<std::string> nodes;
  for (const std::string& node : past.nodes()) {
    if (state.topology.find_node(node)) nodes.push_back(node);
  }
  return nodes;
}

// The plan has the collectives that the node's groups run, and the sessions by which they do.
bool has_all(const Plan& plan, const v1::Past& past) {
  std::set<std::uint32_t> running;
  for (const v1::RunningGroup& group : past.groups())
    running.insert(group.collectives().begin(), group.collectives().end());
  const auto is_planned = [&](std::uint32_t id) { return plan.find_collective(CollectiveId(id)) != nullptr; };
  return std::ranges::all_of(running, is_planned) &&
         std::ranges::all_of(past.sessions(), [&](const v1::RunningSession& session) {
           return !running.contains(session.collective()) ||
                  plan.find_session(SessionId(session.id())) != nullptr;
         });
}

std::set<std::string> running_groups(const v1::Past& past) {
  std::set<std::string> names(past.registering().begin(), past.registering().end());
  for (const v1::RunningGroup& running : past.groups()) names.insert(running.group().name());
  return names;
}

// 0 where it is not known.
std::uint64_t incarnation_of(const std::string& node, const std::vector<v1::Address>& addresses) {
  const auto found = std::ranges::find(addresses, node, [](const auto& address) { return address.peer(); });
  return found == addresses.end() ? 0 : found->incarnation();
}

// What may still run of it. Only where there are grants is a node's word less than what is known here.
v1::Past running_past(const v1::Past& told, const GroupRegistry& registry) {
  const v1::Past past = is_planted(Bug::kGoneOnIsAdopted) ? told : without_gone_on(told, registry);
  return registry.granting() != nullptr ? without_ended(past, registry) : past;
}

// Where there are grants a node's word is not enough for what becomes of a group.
void take_went_on(const v1::Past& told, GroupRegistry& registry) {
  if (registry.granting() != nullptr) return;
  for (const v1::WentOn& one : told.went_on()) registry.note_went_on(from_message(one));
}

}  // namespace

Result<std::vector<std::string>> Succession::take_up(PlanningState& state, EpochPlanner& planner) {
  SQUARE_ASSIGN_OR_RETURN(const v1::Past past, ledger_.read());
  SQUARE_RETURN_IF_ERROR(ledger_.restore(state));
  is_first_ = past.epoch() == 0;
  if (is_first_) return std::vector<std::string>();
  SQUARE_RETURN_IF_ERROR(check_past(past, "", state, !is_open_, true).with_context("the store"));
  SQUARE_RETURN_IF_ERROR(adopt_past(past, "", state, planner).status().with_context("the store"));
  state.measured.take_up(past, state.topology);
  return nodes_of(past, state);
}

Status Succession::begin(PlanningState& state, EpochPlanner& planner) {
  if (is_first_) {
    const std::uint32_t first = first_number(origin());
    state.registry.give_none_below(CollectiveId(first), first);
    planner.numbers().next = std::max(planner.numbers().next, first);
  }
  return ledger_.keep(state, planner.numbers(), planner.last());
}

// Whether a new plan is due: also for who has had a later one than any here. After an error nothing has
// changed.
Result<bool> Succession::adopt_past(const v1::Past& past, const std::string& teller, PlanningState& state,
                                    EpochPlanner& planner) const {
  PlanningState adopted = state;
  SQUARE_ASSIGN_OR_RETURN(bool is_news, adopt(past, teller, adopted, is_open_));
  state = std::move(adopted);
  is_news = adopt_sessions(past, teller, state, planner.numbers()) || is_news;
  is_news = planner.last() <= Epoch(past.epoch()) || is_news;
  if (!is_planted(Bug::kEpochsAgain)) planner.pass(Epoch(past.epoch()));
  return is_news;
}

Status Succession::check(const v1::Hello& hello, const PlanningState& state, bool has_plan) const {
  if (!has_other_past(hello, origin())) return {};
  const bool has_grants = state.registry.granting() != nullptr;
  const v1::Past past = running_past(hello.past(), state.registry);
  return check_past(past, hello.node(), state, has_plan, has_grants && past.store() == origin().store);
}

bool Succession::note(const v1::Hello& hello, Member& member,
                      const std::vector<PublishedPlanPtr>& published) {
  without_plan_.erase(hello.node());
  if (!has_other_past(hello, origin())) return false;
  member.floor = Epoch(hello.past().epoch());
  for (const PublishedPlanPtr& made : published) {
    // Nor is anything to be as it is since one that it has had.
    const bool is_later = made->parts->oldest() > Epoch(hello.past().epoch());
    if (is_planted(Bug::kPastIgnored) || (is_later && has_all(*made->plan, hello.past()))) continue;
    member.floor = std::max(member.floor, made->plan->epoch);
    if (made == published.back()) without_plan_.insert(hello.node());
  }
  pasts_[hello.node()] = hello.past();
  return true;
}

// What goes on here. Where tenants need grants a node's word for what an earlier controller gave counts for a
// while only, and not against a store with a history, as it moves numbers that are others', too.
Result<v1::Past> Succession::accept(const v1::Past& told, const std::string& node, const PlanningState& state,
                                    const GivenNumbers& given, bool has_plan, TimePoint now) const {
  const bool has_grants = state.registry.granting() != nullptr;
  const bool is_own = has_grants && told.store() == origin().store;
  const v1::Past past = running_past(told, state.registry);
  SQUARE_RETURN_IF_ERROR(check_past(past, node, state, has_plan, is_own));
  if (!has_grants) return past;
  if (now <= began_->when + kRecollectionTime && (is_own || is_first_)) {
    const GivenNumbers& then = began_->given;
    const GivenNumbers most{then.epoch + kMostMissed, then.collective + kMostMissed,
                            then.session + kMostMissed, then.group + kMostMissed};
    if (!is_own || !exceeds(past, most) || !exceeds(past, given)) return past;
  } else if (!exceeds(past, given)) {
    return known_part(past, state.registry);
  }
  return failed_precondition(fmt::format(
      "it comes from another controller, or has had more than this one can have missed, and "
      "{:.0f} s after this one began nothing of that is taken; end this process and start another",
      to_seconds(kRecollectionTime)));
}

Succession::Absorbed Succession::absorb(PlanningState& state, EpochPlanner& planner, bool has_plan,
                                        TimePoint now) {
  const auto given = [&] {
    return GivenNumbers{planner.last().value(), state.registry.next_collective().value(),
                        planner.numbers().next, state.registry.next_group()};
  };
  if (!began_) began_ = Beginning{now, given()};
  Absorbed absorbed;
  std::set<std::string> before;
  for (const auto& [name, group] : state.registry.groups()) before.insert(name);
  std::set<std::string> nodes;
  // First, as a node that was away may bring a group that others have gone on from.
  for (const auto& [node, told] : pasts_) take_went_on(told, state.registry);
  for (const auto& [node, told] : std::exchange(pasts_, {})) {
    const Result<v1::Past> accepted = accept(told, node, state, given(), has_plan, now);
    Brought& brought = absorbed.brought.emplace_back(Brought{node, accepted.status(), {}, {}, {}, {}, false});
    if (!accepted.is_ok()) continue;
    const v1::Past& past = *accepted;
    const Result<bool> adopted = adopt_past(past, node, state, planner);
    brought.right = adopted.status();
    if (!adopted.is_ok()) continue;
    brought.is_news = without_plan_.erase(node) > 0 || *adopted;
    log(LogLevel::kInfo, {.component = "controller", .node = node},
        "node {} comes from plan {} of another controller, with {} groups", node, past.epoch(),
        past.groups_size());
    brought.nodes = nodes_of(past, state);
    brought.addresses.assign(past.addresses().begin(), past.addresses().end());
    brought.closed.assign(past.closed().begin(), past.closed().end());
    for (const v1::RunningGroup& running : past.groups()) brought.groups.insert(running.group().name());
    nodes.insert(node);
    running_[node] = running_groups(past);
  }
  // Of what is new here: an adopted group, or what a node says of those that are there. With another
  // controller it may have closed what it registered here.
  for (const auto& [name, group] : state.registry.groups()) {
    if (group->permanent) continue;
    for (const std::string& node : group->nodes) {
      const auto known = running_.find(node);
      const bool is_new = (group->is_adopted && !before.contains(name)) || nodes.contains(node);
      if (is_new && known != running_.end() && !known->second.contains(name))
        absorbed.missing.push_back({name, node});
      if (before.contains(name)) continue;
      for (const Brought& brought : absorbed.brought) {
        if (!brought.groups.contains(name)) continue;  // its word on them is nothing
        if (const std::uint64_t former = incarnation_of(node, brought.addresses); former != 0)
          absorbed.missing.push_back({name, node, former});
      }
    }
  }
  return absorbed;
}

bool Succession::spread(const Absorbed& absorbed, PlanningState& state, Members& members, ClosedParts& closed,
                        Deferred& deferred) {
  bool replan = false;
  for (const Brought& brought : absorbed.brought) {
    const Member* const member = members.find(brought.node);
    if (!brought.right.is_ok() && member != nullptr && member->line != nullptr) {
      deferred.push_back([line = member->line, why = brought.right] { line->close(why, false); });
    }
    replan = replan || brought.is_news;
    for (const v1::Address& address : brought.addresses) members.locate(address);
    for (const v1::Closed& part : brought.closed) closed.note(brought.node, part.group(), part.number());
  }
  const auto is_there = [&](const std::string& name) { return members.contains(name); };
  for (const auto& [group, node, incarnation] : absorbed.missing) {
    const Member* const member = members.find(node);
    const bool is_another =
        member != nullptr && member->incarnation != 0 && member->incarnation != incarnation;
    if (incarnation == 0 || is_another) replan = state.registry.miss(group, node, is_there) || replan;
  }
  return replan;
}

void Succession::tell(const GroupRegistry& registry, Members& members) {
  const WentOn& went_on = registry.went_on();
  // Names are their tenants' where these need grants, and there the store has the groups.
  const std::uint64_t count = registry.granting() == nullptr ? went_on.count() : 0;
  for (auto& [name, member] : members) {
    const bool is_told = member.told_group == registry.next_group() && member.told_went_on == count;
    if (member.line == nullptr || is_told) continue;
    auto event = std::make_shared<v1::ControllerEvent>();
    event->mutable_given()->set_next_group(registry.next_group());
    const auto news = std::min<std::uint64_t>(count - member.told_went_on, went_on.list().size());
    for (auto one = went_on.list().end() - static_cast<std::ptrdiff_t>(news); one != went_on.list().end();
         ++one)
      *event->mutable_given()->add_went_on() = to_message(*one);
    member.told_group = registry.next_group();
    member.told_went_on = count;
    member.line->send(event);
  }
}

bool Succession::absorb_departures(PlanningState& state, Members& members) {
  bool has_ended = false;
  for (const Departure& departure : members.take_departures()) {
    running_.erase(departure.node);
    // A process that joined after the departure has no part in the groups of the one that left.
    const auto still_there = [&](const std::string& name) { return members.was_there(name, departure); };
    for (const std::string& group : state.registry.remove_abandoned(departure.node, still_there)) {
      log(LogLevel::kInfo, "controller", "group {}: its last member left, it is no longer planned", group);
      has_ended = true;
    }
  }
  return has_ended;
}

Status Succession::keep(Admission& admission, const PlanningState& before, EpochPlanner& planner) {
  const Epoch epoch = admission.next ? admission.next->plan->epoch : planner.last();
  const SessionNumbers& numbers = admission.next ? *admission.next->numbers : planner.numbers();
  const Status kept = ledger_.keep(admission.state, numbers, epoch);
  if (kept.is_ok()) return kept;
  log(LogLevel::kError, "controller", "{}", kept.message());
  if (admission.next) planner.drop();
  admission.state = before;
  admission.next = nullptr;
  for (Verdict& verdict : admission.verdicts) {
    if (verdict.status.is_ok()) verdict = {kept, {}};
  }
  return kept;
}

}  // namespace square::controller
