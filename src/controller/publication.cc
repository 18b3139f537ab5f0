#include "controller/publication.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

std::shared_ptr<const v1::ControllerEvent> activation_event(Epoch epoch, bool moves) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_activate()->set_epoch(epoch.value());
  event->mutable_activate()->set_moves(moves);
  return event;
}

// It has a line, over which it may still say that it has installed the plan.
bool may_install(const Member& member, Epoch epoch) {
  return member.line && member.installed < epoch && member.floor < epoch && !member.is_late &&
         !member.is_silent;
}

// It has not come there, and may never.
bool lacks(const Member& member, Epoch epoch) {
  return std::max({member.installed, member.received, member.floor}) < epoch;
}

// No plan waits for it, and none may come there.
bool is_out_of_reach(const Member& member) {
  return !member.line || member.is_silent || member.is_late ||
         (member.is_lagging && !member.is_reached && lacks(member, member.sent));
}

bool leads_over(const PlanSession& session, NodeId node) {
  return std::ranges::any_of(session.streams, [&](const PlanStream& stream) {
    return std::ranges::any_of(stream.links,
                               [&](const auto& link) { return link.first == node || link.second == node; });
  });
}

// It is a member of one of the plan's sessions, or passes on what they send. Kept ones it has.
bool takes_part(const PlanParts& parts, const std::string& name) {
  const Plan& plan = parts.whole();
  const std::optional<NodeId> node = plan.find_node(name);
  return node && std::ranges::any_of(plan.sessions, [&](const PlanSession& session) {
           return !parts.kept().contains(session.collective) &&
                  (std::ranges::find(session.members, *node) != session.members.end() ||
                   leads_over(session, *node));
         });
}

}  // namespace

Publication::Publication(Members& members, Duration install_timeout)
    : members_(members),
      install_timeout_(install_timeout),
      patience_(is_planted(Bug::kLaggardHoldsUpAll) ? install_timeout
                                                    : std::min(kInstallPatience, install_timeout)) {}

// An expected one only until its time is over, once.
bool Publication::is_waited_for(const Member& member, Epoch epoch) const {
  if (member.incarnation == 0) return member.install_end != TimePoint{};
  if (!may_install(member, epoch)) return false;
  return !member.is_lagging || (member.is_reached && lacks(member, epoch));
}

// A line that is opened again and again gets no more time than a plan has.
Publication::TimePoint Publication::patience_end(const Member& member) const {
  if (member.incarnation == 0) return member.install_end;
  const TimePoint since = member.is_lagging ? member.sent_at : member.install_end - install_timeout_;
  // An older node says so with its next heartbeat: Members::note().
  const bool waits_for_beat = member.protocol < kMovingSince && lacks(member, epoch_under_way());
  return std::min(since, begun_at_ + patience_) + patience_ + (waits_for_beat ? kLongestBeat : Duration(0));
}

void Publication::begin(PublishedPlanPtr next, TimePoint now) {
  SQUARE_CHECK(!under_way_, "one plan at a time");
  under_way_ = true;
  begun_at_ = now;
  next_ = next ? std::move(next) : held_back_ ? held_back_ : active_;
  if (!next_) return;
  for (auto& [name, member] : members_) {
    if (!member.line) continue;
    send(member, *next_, now);
    if (!member.is_lagging) member.install_end = now + install_timeout_;
  }
}

Publication::TimePoint Publication::rest_end() const {
  const bool is_lagging = std::ranges::any_of(
      members_, [](const auto& entry) { return entry.second.is_lagging && entry.second.line; });
  return is_lagging ? active_since_ + kRest : TimePoint::min();
}

bool Publication::is_lacked() const {
  if (held_back_ && held_back_->moves) return true;
  return std::ranges::any_of(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    // What it runs is of a controller before this one, and others may have had other plans of that.
    if (member.floor > (active_ ? active_->plan->epoch : Epoch(0))) return true;
    if (!active_) return member.incarnation == 0;
    return member.installed < active_->plan->epoch && takes_part(*active_->parts, entry.first);
  });
}

std::set<CollectiveId> Publication::collectives_of(const Plan& plan, const Members& members,
                                                   const Which& is_meant) {
  std::set<NodeId> meant;
  for (const auto& [name, member] : members) {
    const std::optional<NodeId> node = plan.find_node(name);
    if (node && is_meant(member)) meant.insert(*node);
  }
  std::set<CollectiveId> collectives;
  if (meant.empty()) return collectives;
  for (const PlanSession& session : plan.sessions) {
    const auto has = [&](NodeId node) { return meant.contains(node); };
    if (std::ranges::any_of(session.members, has)) collectives.insert(session.collective);
  }
  return collectives;
}

KeptWays Publication::kept() const {
  if (!active_ || is_planted(Bug::kChangedWithoutMember)) return {};
  KeptWays kept{active_->parts, collectives_of(active_->parts->whole(), members_, is_out_of_reach)};
  kept.collectives.insert(held_.begin(), held_.end());
  return kept;
}

bool Publication::can_release() const {
  if (!active_ || active_->parts->kept().empty()) return false;
  const std::set<CollectiveId> lacked = collectives_of(
      active_->parts->whole(), members_,
      [&](const Member& member) { return is_out_of_reach(member) || lacks(member, active_->plan->epoch); });
  return !std::ranges::includes(lacked, active_->parts->kept());
}

bool Publication::must_move(const PublishedPlan& next) const {
  return is_lacked() || (active_ && !std::ranges::includes(next.parts->kept(), active_->parts->kept()));
}

// What is new in the plan may begin without a member, which hears of it later. What runs may not change so.
bool Publication::hold_back() {
  if (!active_ || next_ == active_ || is_planted(Bug::kChangedWithoutMember)) return false;
  if (!can_keep(active_->parts->whole(), next_->parts->whole())) return false;
  const Epoch epoch = next_->plan->epoch;
  const std::size_t count = held_.size() + passed_over_.size();
  const auto lacks_it = [&](const Member& member) { return lacks(member, epoch); };
  for (const CollectiveId id : collectives_of(next_->parts->whole(), members_, lacks_it)) {
    const std::optional<Epoch> before = active_->parts->since(id);
    if (before && before != next_->parts->since(id)) held_.insert(id);
  }
  if (held_in_row_ < kMostHeldInRow) passed_over_.merge(lacking_relays());
  if (held_.size() + passed_over_.size() == count) return false;
  // Others wait: after a few of them nothing that runs changes, whatever else is not answered.
  if (++held_in_row_ >= kMostHeldInRow) {
    for (const PlanCollective& collective : active_->parts->whole().collectives) held_.insert(collective.id);
  }
  log(LogLevel::kInfo, {.component = "controller", .epoch = epoch},
      "plan {} does not become active, because it has not reached all nodes that it needs", epoch.value());
  return abandon();
}

std::set<std::string> Publication::lacking_relays() const {
  const Plan& plan = next_->parts->whole();
  std::map<NodeId, std::string> lacking;
  for (const auto& [name, member] : members_) {
    const std::optional<NodeId> node = plan.find_node(name);
    if (node && lacks(member, plan.epoch)) lacking.emplace(*node, name);
  }
  std::set<std::string> relays;
  for (const PlanSession& session : plan.sessions) {
    if (next_->parts->since(session.collective) != plan.epoch) continue;
    for (const auto& [node, name] : lacking) {
      const bool is_member = std::ranges::find(session.members, node) != session.members.end();
      if (!is_member && leads_over(session, node)) relays.insert(name);
    }
  }
  return relays;
}

void Publication::greet(Member& member, TimePoint now) {
  if (active_) send(member, *active_, now);
  if (next_) send(member, *next_, now);
}

void Publication::send(Member& member, const PublishedPlan& plan, TimePoint now) {
  if (member.sent >= plan.plan->epoch || member.floor >= plan.plan->epoch) return;
  member.is_reached = !lacks(member, member.sent);
  member.sent = plan.plan->epoch;
  member.sent_at = now;
  if (!member.is_lagging) member.install_end = now + install_timeout_;
  // What an earlier line confirmed does not count: Members::join().
  const bool has_active = active_ && member.installed == active_->plan->epoch;
  member.line->send(plan.parts->event_for(member.node, has_active ? active_->parts.get() : nullptr));
}

void Publication::send_whole(const Member& member, Epoch epoch) const {
  for (const PublishedPlanPtr& plan : {active_, next_}) {
    if (!plan || plan->plan->epoch != epoch || !member.line || member.sent < epoch) continue;
    return member.line->send(plan->parts->event_for(member.node));
  }
}

bool Publication::confirm(Member& member, Epoch epoch, TimePoint now, bool is_moving) {
  if (epoch > member.sent || epoch <= member.installed) return false;
  if (is_moving) return std::exchange(member.received, std::max(member.received, epoch)) < epoch;
  member.received = std::max(member.received, epoch);
  member.installed = epoch;
  member.is_late = false;
  // One after the other: who lagged goes on with the next.
  if (member.is_lagging) member.install_end = now + install_timeout_;
  member.is_lagging = member.is_lagging && member.installed < member.sent;
  activate(member);
  return true;
}

// Not before the node has installed it: a node ignores the activation of a plan it does not have.
void Publication::activate(Member& member) {
  if (!active_ || !member.line) return;
  const Epoch epoch = active_->plan->epoch;
  if (member.installed < epoch || member.activated >= epoch) return;
  // The last one over a line that broke may not have been read.
  const bool is_first = member.activated == Epoch(0);
  const bool moves = last_move_ > member.last_activated ||
                     (is_first && last_move_ > Epoch(0) && last_move_ == member.last_activated);
  member.activated = member.last_activated = epoch;
  member.line->send(activation_event(epoch, moves));
}

bool Publication::note_lagging(TimePoint now, Settlement& settlement) {
  const Epoch epoch = epoch_under_way();
  bool is_done = true;
  for (auto& [name, member] : members_) {
    if (!is_waited_for(member, epoch)) continue;
    if (now < patience_end(member)) {
      is_done = false;
    } else if (member.incarnation == 0) {
      member.install_end = {};
    } else if (std::exchange(member.is_lagging, true)) {
      member.is_reached = false;
      settlement.away.push_back(name);
    } else {
      if (lacks(member, epoch)) settlement.away.push_back(name);
      member.is_reached = !lacks(member, epoch);
      log(LogLevel::kInfo, {.component = "controller", .node = name, .epoch = epoch},
          "node {} has not installed plan {} within {:.3g} s: nobody else waits for it", name, epoch.value(),
          to_seconds(patience_));
    }
  }
  return is_done;
}

void Publication::end_late(TimePoint now, Settlement& settlement, Deferred& deferred) {
  for (auto& [name, member] : members_) {
    // Who is silent may come back with its line.
    if (member.is_silent || !member.line) member.is_lagging = false;
    if (!member.is_lagging || now < member.install_end) continue;
    const Epoch epoch = member.sent;
    log(LogLevel::kWarning, {.component = "controller", .node = name, .epoch = epoch},
        "node {} did not install plan {} within {:.3g} s and is disconnected, silent for {:.3g} s", name,
        epoch.value(), to_seconds(install_timeout_), to_seconds(now - member.heard_at));
    member.is_late = true;
    settlement.late.push_back(name);
    settlement.away.push_back(name);
    settlement.unheard[name] = now - member.heard_at;
    deferred.push_back([line = std::exchange(member.line, nullptr), epoch] {
      line->close(deadline_exceeded(fmt::format("plan {} was not installed in time", epoch.value())), true);
    });
  }
}

Settlement Publication::settle(TimePoint now, Deferred& deferred) {
  Settlement settlement;
  if (!has_quorum()) {
    settlement.plan_again = abandon();
    return settlement;
  }
  const bool is_done = !under_way_ || note_lagging(now, settlement);
  end_late(now, settlement, deferred);
  if (!under_way_ || !is_done) return settlement;
  // Back since, and as slow as ever.
  for (const auto& [name, member] : members_) {
    if (!member.is_late || !member.line) continue;
    settlement.late.push_back(name);
    settlement.away.push_back(name);
    settlement.unheard[name] = now - member.heard_at;
  }
  settlement.plan_again = hold_back();
  if (settlement.plan_again) return settlement;
  const Epoch epoch = epoch_under_way();
  if (next_ != active_) {
    held_.clear();
    passed_over_.clear();
    held_back_ = nullptr;
    held_in_row_ = 0;
    active_ = next_;
    active_since_ = now;
    settlement.plan_again = can_release();
    if (active_->moves) last_move_ = epoch;
    log(LogLevel::kInfo, {.component = "controller", .epoch = epoch}, "plan {} is active", epoch.value());
  }
  next_ = nullptr;
  under_way_ = false;
  for (auto& [name, member] : members_) activate(member);
  settlement.activated = epoch;
  return settlement;
}

bool Publication::abandon() {
  if (!std::exchange(under_way_, false)) return false;
  if (active_ && next_ && next_ != active_) held_back_ = next_;
  next_ = nullptr;
  return true;
}

std::vector<std::string> Publication::awaited(Epoch epoch) const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (may_install(member, epoch)) names.push_back(name);
  }
  return names;
}

std::map<std::string, std::string> Publication::and_awaited(
    std::map<std::string, std::string> addresses) const {
  if (!has_quorum()) addresses.merge(members_.lost_addresses());
  return addresses;
}

Publication::TimePoint Publication::next_end(TimePoint latest) const {
  if (!has_quorum()) return quorum_.next_end(latest);
  const Epoch epoch = epoch_under_way();
  for (const auto& [name, member] : members_) {
    if (under_way_ && is_waited_for(member, epoch)) latest = std::min(latest, patience_end(member));
    if (member.is_lagging && member.line && !member.is_silent) latest = std::min(latest, member.install_end);
  }
  return latest;
}

std::vector<std::string> Publication::missing(const std::vector<std::string>& names) const {
  const Epoch epoch = active_ ? active_->plan->epoch : Epoch(0);
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    const Member* const member = members_.find(name);
    if (member == nullptr || !member->line || member->installed < epoch) missing.push_back(name);
  }
  return missing;
}

}  // namespace square::controller
