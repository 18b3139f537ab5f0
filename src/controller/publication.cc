#include "controller/publication.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"

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

// It is a member of one of the plan's sessions, or passes on what they send.
bool takes_part(const Plan& plan, const std::string& name) {
  const std::optional<NodeId> node = plan.find_node(name);
  return node && std::ranges::any_of(plan.sessions, [&](const PlanSession& session) {
           const auto is_on = [&](const PlanStream& stream) {
             return std::ranges::any_of(
                 stream.links, [&](const auto& link) { return link.first == *node || link.second == *node; });
           };
           return std::ranges::find(session.members, *node) != session.members.end() ||
                  std::ranges::any_of(session.streams, is_on);
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
  return may_install(member, epoch) && !member.is_lagging;
}

Publication::TimePoint Publication::patience_end(const Member& member) const {
  return member.incarnation == 0 ? member.install_end : member.install_end - install_timeout_ + patience_;
}

void Publication::begin(PublishedPlanPtr next, TimePoint now) {
  SQUARE_CHECK(!under_way_, "one plan at a time");
  under_way_ = true;
  next_ = next ? std::move(next) : active_;
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
  if (is_planted(Bug::kLackedPlanStays)) return false;
  return std::ranges::any_of(members_, [&](const auto& entry) {
    const Member& member = entry.second;
    // What it runs is of a controller before this one, and others may have had other plans of that.
    if (member.floor > (active_ ? active_->plan->epoch : Epoch(0))) return true;
    if (!active_) return member.incarnation == 0;
    return member.installed < active_->plan->epoch && takes_part(*active_->plan, entry.first);
  });
}

void Publication::greet(Member& member, TimePoint now) {
  if (active_) send(member, *active_, now);
  if (next_) send(member, *next_, now);
}

void Publication::send(Member& member, const PublishedPlan& plan, TimePoint now) {
  if (member.sent >= plan.plan->epoch || member.floor >= plan.plan->epoch) return;
  member.sent = plan.plan->epoch;
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

bool Publication::confirm(Member& member, Epoch epoch, TimePoint now) {
  if (epoch > member.sent || epoch <= member.installed) return false;
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

bool Publication::note_lagging(TimePoint now) {
  const Epoch epoch = epoch_under_way();
  bool is_done = true;
  for (auto& [name, member] : members_) {
    if (!is_waited_for(member, epoch)) continue;
    if (now < patience_end(member)) {
      is_done = false;
    } else if (member.incarnation == 0) {
      member.install_end = {};
    } else {
      member.is_lagging = true;
      log(LogLevel::kInfo, {.component = "controller", .node = name, .epoch = epoch},
          "node {} has not installed plan {} within {:.3g} s: it becomes active for the others", name,
          epoch.value(), to_seconds(patience_));
    }
  }
  return is_done;
}

void Publication::end_late(TimePoint now, std::vector<std::string>& late, Deferred& deferred) {
  for (auto& [name, member] : members_) {
    // Who is silent may come back with its line.
    if (member.is_silent || !member.line) member.is_lagging = false;
    if (!member.is_lagging || now < member.install_end) continue;
    const Epoch epoch = member.sent;
    log(LogLevel::kWarning, {.component = "controller", .node = name, .epoch = epoch},
        "node {} did not install plan {} within {:.3g} s and is disconnected", name, epoch.value(),
        to_seconds(install_timeout_));
    member.is_late = true;
    late.push_back(name);
    deferred.push_back([line = std::exchange(member.line, nullptr), epoch] {
      line->close(deadline_exceeded(fmt::format("plan {} was not installed in time", epoch.value())), true);
    });
  }
}

Settlement Publication::settle(TimePoint now, Deferred& deferred) {
  Settlement settlement;
  const bool is_done = !under_way_ || note_lagging(now);
  end_late(now, settlement.late, deferred);
  if (!under_way_ || !is_done) return settlement;
  // Back since, and as slow as ever.
  for (const auto& [name, member] : members_) {
    if (member.is_late && member.line) settlement.late.push_back(name);
  }
  const Epoch epoch = epoch_under_way();
  if (next_ != active_) {
    active_ = next_;
    active_since_ = now;
    if (active_->moves) last_move_ = epoch;
    log(LogLevel::kInfo, {.component = "controller", .epoch = epoch}, "plan {} is active", epoch.value());
  }
  next_ = nullptr;
  under_way_ = false;
  for (auto& [name, member] : members_) activate(member);
  settlement.activated = epoch;
  return settlement;
}

std::vector<std::string> Publication::awaited(Epoch epoch) const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (may_install(member, epoch)) names.push_back(name);
  }
  return names;
}

Publication::TimePoint Publication::next_end(TimePoint latest) const {
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
