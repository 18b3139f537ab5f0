// A plan becomes active in two phases: install and confirm, then activate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/deferred.h"
#include "controller/members.h"

namespace square::controller {

// What came of a publication.
struct Activation {
  Epoch epoch;                    // the active plan's; 0: none yet
  std::vector<std::string> late;  // nodes that did not install it in time, and were disconnected once
};

// The active plan, and the one on its way to the members. Each is sent what concerns it; who has confirmed
// the active plan on this line, only what is other than in that. No plan is active anywhere before every
// connected member has installed it or was given up: one that was late is waited for again once it has
// installed a plan. Not thread-safe, as Members.
class Publication {
 public:
  using TimePoint = Members::TimePoint;

  // `members` must live longer.
  Publication(Members& members, Duration install_timeout)
      : members_(members), install_timeout_(install_timeout) {}

  [[nodiscard]] const PublishedPlanPtr& active() const { return active_; }
  // The one on its way, or else the active one; null before the first.
  [[nodiscard]] const Plan* newest() const {
    const PublishedPlanPtr& plan = next_ ? next_ : active_;
    return plan ? plan->plan.get() : nullptr;
  }
  // Before anyone has joined: the plan is active at once.
  void start_with(PublishedPlanPtr plan) { active_ = std::move(plan); }

  // First phase. Null: the active plan once more, as members may still be installing it.
  // Precondition: !is_under_way().
  void begin(PublishedPlanPtr next, TimePoint now);
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  // Sends a member that has joined what is active and what is under way.
  void greet(Member& member, TimePoint now);
  // Sends it all of its part of the plan, which it could not put together.
  void send_whole(const Member& member, Epoch epoch) const;
  // The member has installed the plan. Returns whether that is news.
  bool confirm(Member& member, Epoch epoch);
  // Second phase, when no member is waited for any more: nothing before that. Disconnects who is late.
  // Precondition: is_under_way().
  std::optional<Activation> settle(TimePoint now, Deferred& deferred);

  // When the next member is late; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;
  // Of the names, those not connected or without the active plan.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& names) const;

 private:
  [[nodiscard]] Epoch epoch_under_way() const { return next_ ? next_->plan->epoch : Epoch(0); }
  void send(Member& member, const PublishedPlan& plan, TimePoint now);
  void activate(Member& member);

  Members& members_;
  const Duration install_timeout_;
  PublishedPlanPtr active_;
  bool under_way_ = false;
  PublishedPlanPtr next_;  // under way; null where there is no plan yet
  std::vector<std::string> late_;
  Epoch last_move_{0};  // the last active plan to which what runs was to move
};

}  // namespace square::controller
