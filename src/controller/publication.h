// A plan becomes active in two phases: install and confirm, then activate.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/deferred.h"
#include "controller/members.h"
#include "controller/quorum.h"

namespace square::controller {

// A plan becomes active without those that have not installed it within so long: they may be stopped, and
// nobody else is to wait for them.
inline constexpr Duration kInstallPatience = std::chrono::seconds(1);
// From then on a plan that can wait does so for those without it, but no longer than this: each plan moves
// what runs, and where one follows another before all have it, one half of the members waits for the other by
// turns and nothing ends.
inline constexpr Duration kRest = std::chrono::seconds(1);
// So many plans in a row are held back for what they change; the next one changes nothing that runs.
inline constexpr int kMostHeldInRow = 2;

// What came of a publication by now.
struct Settlement {
  // Nodes that did not install a plan in time, and were disconnected once.
  std::vector<std::string> late;
  // The plan under way is active, or the one before once more: its epoch; 0: there is none yet.
  std::optional<Epoch> activated;
  // The plan under way becomes active nowhere, because it has not reached all nodes that it needs; or
  // collectives that the active plan keeps may change again.
  bool plan_again = false;
  // Those late, and nodes that a plan did not reach: what can is planned around them.
  std::vector<std::string> away{};
  // Of those late: for how long nothing has come over their lines.
  std::map<std::string, Duration> unheard{};
};

// The active plan, and the one on its way to the members. Each is sent what concerns it; who has confirmed
// the active plan on this line, only what is other than in that. No plan is active anywhere before every
// connected member has installed it or lags: who does is waited for again once it has installed all that it
// was sent, and is disconnected when it has not in `install_timeout`. Who was late by that is waited for
// again once it has installed a plan. A collective never changes without one of its members: the plan that
// would is held back, and the next leaves the collective as it is. Not thread-safe, as Members.
class Publication {
 public:
  using TimePoint = Members::TimePoint;

  // `members` must live longer.
  Publication(Members& members, Duration install_timeout);

  [[nodiscard]] const PublishedPlanPtr& active() const { return active_; }
  // The active one, and the one on its way.
  [[nodiscard]] std::vector<PublishedPlanPtr> published() const {
    std::vector<PublishedPlanPtr> plans;
    if (active_) plans.push_back(active_);
    if (next_) plans.push_back(next_);
    return plans;
  }
  // Before anyone has joined: the plan is active at once.
  void start_with(PublishedPlanPtr plan) { active_ = std::move(plan); }

  // First phase. Null: the active plan once more, as members may still be installing it; or the plan that was
  // held back, as no other one can be made: then it becomes active.
  // Precondition: !is_under_way().
  void begin(PublishedPlanPtr next, TimePoint now);
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  // From when on the next may begin that can wait: the past, where nobody lags.
  [[nodiscard]] TimePoint rest_end() const;
  // Somebody with a part in the active plan, or in one of an earlier controller, may never have that: what
  // runs under it elsewhere, and is refused there, must move to the next.
  [[nodiscard]] bool is_lacked() const;
  // What the next plan leaves as the active one has it: collectives of which a member may not install a plan
  // now.
  [[nodiscard]] KeptWays kept() const;
  // The active plan or a later one. An older one a node may have had before.
  [[nodiscard]] bool is_current(Epoch epoch) const { return active_ && epoch >= active_->plan->epoch; }
  // Whether there is a kept collective all of whose members have the active plan.
  [[nodiscard]] bool can_release() const;
  // Whether what runs must move to this one: also what the active plan has kept as it was.
  [[nodiscard]] bool must_move(const PublishedPlan& next) const;
  // Whether begin() without another plan has a purpose. What the store did not take is planned again: until
  // then what was held back stays so.
  [[nodiscard]] bool can_begin_again(bool is_store_behind, bool are_any_planned) const {
    return active_ ? !(is_store_behind && held_back_) : are_any_planned;
  }
  // Sends a member that has joined what is active and what is under way.
  void greet(Member& member, TimePoint now);
  // Sends it all of its part of the plan, which it could not put together.
  void send_whole(const Member& member, Epoch epoch) const;
  // The member has installed the plan; `is_moving`: it has received it, and has still to install it. Returns
  // whether that is news.
  bool confirm(Member& member, Epoch epoch, TimePoint now, bool is_moving = false);
  // Second phase, when no member is waited for any more: nothing before that. Disconnects who is late.
  Settlement settle(TimePoint now, Deferred& deferred);
  // Members that have still to install the plan, and may do so in time.
  [[nodiscard]] std::vector<std::string> awaited(Epoch epoch) const;

  // Without a quorum nothing is published: what is under way becomes active nowhere. As Quorum has them; to
  // the addresses come those of nodes whose hosts may know that they are dead, and count no more.
  [[nodiscard]] bool has_quorum() const { return quorum_.holds(); }
  bool look(TimePoint now, Deferred& deferred) { return quorum_.look(now, deferred); }
  [[nodiscard]] std::map<std::string, std::string> and_awaited(
      std::map<std::string, std::string> addresses) const;
  // When the next member lags or is late; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;
  // Of the names, those not connected or without the active plan.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& names) const;

 private:
  [[nodiscard]] Epoch epoch_under_way() const { return next_ ? next_->plan->epoch : Epoch(0); }
  [[nodiscard]] bool is_waited_for(const Member& member, Epoch epoch) const;
  // When it is taken to lag, or to lack the plan, or, not having come, is not waited for any more.
  [[nodiscard]] TimePoint patience_end(const Member& member) const;
  void send(Member& member, const PublishedPlan& plan, TimePoint now);
  void activate(Member& member);
  using Which = std::function<bool(const Member& member)>;
  // Collectives of the plan with a member like that.
  [[nodiscard]] static std::set<CollectiveId> collectives_of(const Plan& plan, const Members& members,
                                                             const Which& is_meant);
  [[nodiscard]] bool hold_back();
  // What is under way becomes active nowhere. Returns whether anything was.
  bool abandon();
  // Relays of what is new in the plan under way that lack it.
  [[nodiscard]] std::set<std::string> lacking_relays() const;
  // Nobody is waited for any more.
  bool note_lagging(TimePoint now, Settlement& settlement);
  void end_late(TimePoint now, Settlement& settlement, Deferred& deferred);

  Members& members_;
  Quorum quorum_{members_};
  const Duration install_timeout_;
  const Duration patience_;
  PublishedPlanPtr active_;
  TimePoint active_since_{};
  bool under_way_ = false;
  PublishedPlanPtr next_;              // under way; null where there is no plan yet
  std::set<std::string> passed_over_;  // relays that lacked plans which were held back
  std::set<CollectiveId> held_;  // the plans that were held back would have changed them without a member
  PublishedPlanPtr held_back_;   // the last of these, until another plan is active
  int held_in_row_ = 0;          // plans held back since one became active
  TimePoint begun_at_{};         // the plan under way
  Epoch last_move_{0};           // the last active plan to which what runs was to move
};

}  // namespace square::controller
