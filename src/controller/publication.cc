#include "controller/publication.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace square::controller {
namespace {

std::shared_ptr<const v1::ControllerEvent> activation_event(Epoch epoch, bool moves) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_activate()->set_epoch(epoch.value());
  event->mutable_activate()->set_moves(moves);
  return event;
}

// An expected one only until its time is over, once.
bool is_waited_for(const Member& member, Epoch epoch) {
  if (member.incarnation == 0) return member.install_end != Member::TimePoint{};
  return member.line && member.installed < epoch && member.floor < epoch && !member.is_late &&
         !member.is_silent;
}

}  // namespace

void Publication::begin(PublishedPlanPtr next, TimePoint now) {
  SQUARE_CHECK(!under_way_, "one plan at a time");
  under_way_ = true;
  next_ = next ? std::move(next) : active_;
  if (!next_) return;
  for (auto& [name, member] : members_) {
    if (!member.line) continue;
    send(member, *next_, now);
    member.install_end = now + install_timeout_;
  }
}

void Publication::greet(Member& member, TimePoint now) {
  if (active_) send(member, *active_, now);
  if (next_) send(member, *next_, now);
}

void Publication::send(Member& member, const PublishedPlan& plan, TimePoint now) {
  if (member.sent >= plan.plan->epoch || member.floor >= plan.plan->epoch) return;
  member.sent = plan.plan->epoch;
  member.install_end = now + install_timeout_;
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

bool Publication::confirm(Member& member, Epoch epoch) {
  if (epoch > member.sent || epoch <= member.installed) return false;
  member.installed = epoch;
  member.is_late = false;
  activate(member);
  return true;
}

// Not before the node has installed it: a node ignores the activation of a plan it does not have.
void Publication::activate(Member& member) {
  if (!active_ || !member.line) return;
  const Epoch epoch = active_->plan->epoch;
  if (member.installed < epoch || member.activated >= epoch) return;
  const bool moves = last_move_ > member.last_activated;
  member.activated = member.last_activated = epoch;
  member.line->send(activation_event(epoch, moves));
}

std::optional<Activation> Publication::settle(TimePoint now, Deferred& deferred) {
  SQUARE_CHECK(under_way_, "no plan is under way");
  const Epoch epoch = epoch_under_way();
  bool waiting = false;
  for (auto& [name, member] : members_) {
    if (!is_waited_for(member, epoch)) continue;
    if (now < member.install_end) {
      waiting = true;
      continue;
    }
    if (member.incarnation == 0) {
      member.install_end = {};
      continue;
    }
    log(LogLevel::kWarning, {.component = "controller", .node = name, .epoch = epoch},
        "node {} did not install plan {} within {:.3g} s and is disconnected", name, epoch.value(),
        to_seconds(install_timeout_));
    member.is_late = true;
    late_.push_back(name);
    deferred.push_back([line = std::exchange(member.line, nullptr), epoch] {
      line->close(deadline_exceeded(fmt::format("plan {} was not installed in time", epoch.value())), true);
    });
  }
  if (waiting) return std::nullopt;
  // Back since, and as slow as ever.
  for (const auto& [name, member] : members_) {
    const bool is_known = std::ranges::find(late_, name) != late_.end();
    if (member.is_late && member.line && !is_known) late_.push_back(name);
  }
  if (next_ != active_) {
    active_ = next_;
    if (active_->moves) last_move_ = epoch;
    log(LogLevel::kInfo, {.component = "controller", .epoch = epoch}, "plan {} is active", epoch.value());
  }
  next_ = nullptr;
  under_way_ = false;
  for (auto& [name, member] : members_) activate(member);
  return Activation{epoch, std::exchange(late_, {})};
}

Publication::TimePoint Publication::next_end(TimePoint latest) const {
  if (!under_way_) return latest;
  const Epoch epoch = epoch_under_way();
  for (const auto& [name, member] : members_) {
    if (is_waited_for(member, epoch)) latest = std::min(latest, member.install_end);
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
