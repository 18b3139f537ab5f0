// The plans that a node has: installed, active, and on their way out.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

// Used on the node's strand.
class LivePlans {
 public:
  using PlanPointer = std::shared_ptr<const InstalledPlan>;
  using Installed = std::function<void(Epoch)>;

  // What the rest of the node does about plans.
  class Host {
   public:
    virtual ~Host() = default;
    // Makes ready to relay and receive under the plan.
    virtual void open_plan(const PlanPointer& plan) = 0;
    // The plan goes: nothing runs under it.
    virtual void close_plan(const InstalledPlan& plan) = 0;
    // Operations of older plans move to this one, those that can.
    virtual void move_up(const PlanPointer& plan) = 0;
    // Whether an operation runs under a plan that is older than this.
    [[nodiscard]] virtual bool runs_before(Epoch epoch) const = 0;
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
  // None before the first activate().
  [[nodiscard]] PlanPointer active() const { return active_ ? find(*active_) : nullptr; }

 private:
  struct Pending {
    TimePoint since;
    Epoch epoch;
    Installed installed;
  };

  void install_again(Epoch epoch, Installed installed);
  PlanPointer make(const std::shared_ptr<const Plan>& plan);
  void retire_before(Epoch epoch);
  void follow();
  void move_up();

  NodeContext& node_;
  Host& host_;
  std::map<Epoch, PlanPointer> plans_;
  std::optional<Epoch> active_;
  std::vector<Pending> pending_;
  bool is_moving_ = false;  // whatever runs is to leave the plans before the active one
  Executor::TimerId move_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
