// The plans that a node has: installed, active, and on their way out.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/plan/installed_plan.h"

namespace square {

// Operations under an old plan that keeps a new one waiting, or that is to be left, are told to move up
// this often.
inline constexpr Duration kMoveWait = std::chrono::seconds(1);
// And the new plan waits for them no longer than this: the way on which an operation would hear that it
// begins again may be what is broken. It moves when it hears.
inline constexpr Duration kLongestMove = std::chrono::seconds(2);

// A node has at most this many plans at a time: the active one, the one before it, and two that became active
// nowhere, or not here, or not yet.
inline constexpr std::size_t kMaxLivePlans = 4;

// Used on the node's strand.
class LivePlans {
 public:
  using PlanPointer = std::shared_ptr<const InstalledPlan>;
  using CollectivePointer = std::shared_ptr<const InstalledCollective>;
  using Installed = std::function<void(Epoch)>;

  // What the rest of the node does about plans.
  class Host {
   public:
    virtual ~Host() = default;
    // Makes ready to relay and receive in a collective as no live plan had it.
    virtual void open(const CollectivePointer& collective) = 0;
    // No live plan has it like this any more: nothing runs so.
    virtual void close(const CollectivePointer& collective) = 0;
    // All of the plan's collectives are open.
    virtual void open_plan(const PlanPointer& plan) = 0;
    // Operations of collectives as older plans had them move to this one, those that can. `may_stay`: what
    // codes with redundancy carry, and goes on without who is avoided, need not.
    virtual void move_up(const PlanPointer& plan, bool may_stay) = 0;
    // The plan is active: operations that lose nothing by it go on at its rates, for others share them.
    virtual void follow(const PlanPointer& plan) = 0;
    // Whether an operation runs in a collective as it was before this plan had it.
    [[nodiscard]] virtual bool runs_before(const InstalledPlan& plan) const = 0;
  };

  LivePlans(NodeContext& node, Host& host) : node_(node), host_(host) {}

  // `installed` is told once the node is ready and no operation of an older plan than the active one
  // runs, or kLongestMove is over. Told at once, without more, of an epoch that is not newer than those
  // installed, unless somebody waits for that already: then with them.
  void install(const std::shared_ptr<const Plan>& plan, Installed installed);
  // Ignored for a plan that is not installed, or not newer than the active one. The plans before the
  // one that was active until now go. With `moves`, operations of older plans move to it at once.
  void activate(Epoch epoch, bool moves = false);
  // An operation may have left an older plan: tells those who wait for that.
  void confirm();

  [[nodiscard]] const std::map<Epoch, PlanPointer>& all() const { return plans_; }
  // None if it is not installed.
  [[nodiscard]] PlanPointer find(Epoch epoch) const;
  // Of the plan that has most.
  [[nodiscard]] std::size_t session_count() const;
  // Whether one of them has it.
  [[nodiscard]] bool knows(CollectiveId collective) const;
  // As one of them has it since this epoch, or none.
  [[nodiscard]] CollectivePointer find(CollectiveId collective, Epoch since) const;
  // Whose stream it is, or none.
  [[nodiscard]] CollectivePointer find(const StreamKey& stream) const;
  // In each way in which one of them has it, oldest first.
  [[nodiscard]] std::vector<CollectivePointer> ways_of(CollectiveId collective) const;
  [[nodiscard]] std::vector<CollectivePointer> ways_of(SessionId session) const;
  // Each session, once for each way in which there is one.
  [[nodiscard]] std::vector<std::pair<SessionId, CollectivePointer>> sessions() const;
  // None before the first activate().
  [[nodiscard]] PlanPointer active() const { return active_ ? find(*active_) : nullptr; }
  // As the active plan has it.
  [[nodiscard]] CollectivePointer active(CollectiveId collective) const;

 private:
  struct Pending {
    TimePoint since;
    Epoch epoch;
    Installed installed;
  };

  void install_again(Epoch epoch, Installed installed);
  PlanPointer make(const std::shared_ptr<const Plan>& plan);
  void open(const PlanPointer& plan, const InstalledPlan* base);
  void close(const PlanPointer& plan);
  void retire_before(Epoch epoch);
  void retire_surplus();
  // Another live plan than `plan` has the collective like this.
  [[nodiscard]] bool is_in_another(const InstalledPlan* plan, const CollectivePointer& collective) const;
  void move_up();

  NodeContext& node_;
  Host& host_;
  using SessionKey = std::tuple<SessionId, Epoch, OriginTag>;

  std::map<Epoch, PlanPointer> plans_;
  std::map<SessionKey, CollectivePointer> sessions_;  // of all plans
  std::optional<Epoch> active_;
  std::optional<Epoch> previous_;  // was active before
  std::vector<Pending> pending_;
  bool is_moving_ = false;       // whatever runs is to leave the plans before the active one
  bool has_missed_one_ = false;  // a plan before the active one: others have let go of what is older
  Executor::TimerId move_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
