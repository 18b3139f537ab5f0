// Communicators over simulated nodes, with a controller that is not there: groups are planned
// and the plan is published by the call that registers them, all under virtual time.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "collective/composite_thread.h"
#include "controller/group_registry.h"
#include "controller/session_numbers.h"
#include "node/overlay.h"
#include "square/communicator.h"
#include "square/planner.h"

namespace square::test {

class SimulatedController {
 public:
  SimulatedController(Overlay& overlay, Topology topology, const std::string& policy = "exact")
      : overlay_(overlay), registry_(Scenario{}) {
    scenario_.topology = std::move(topology);
    scenario_.policy.name = policy;
  }

  // Before it registers a group; others weigh 1.
  void add_tenant(const std::string& name, double weight) { scenario_.tenants.push_back({name, weight}); }

  Result<GroupRegistration> register_group(const GroupSpec& group) {
    const controller::GroupRegistry before = registry_;
    SQUARE_ASSIGN_OR_RETURN(auto registered, registry_.add(group, scenario_.topology));
    if (const Status status = registered.changed ? publish() : Status::ok(); !status.is_ok()) {
      registry_ = before;
      return status;
    }
    return GroupRegistration{std::move(registered.collectives), Epoch(epoch_), registered.number};
  }

 private:
  Status publish() {
    Scenario scenario = scenario_;
    registry_.fill(scenario);
    SQUARE_ASSIGN_OR_RETURN(PlanResult made, make_plan(scenario));
    controller::renumber_sessions(made.plan, numbers_);
    made.plan.epoch = Epoch(++epoch_);
    if (!overlay_.publish(std::make_shared<const Plan>(std::move(made.plan)))) {
      return deadline_exceeded("a plan was not installed");
    }
    return Status::ok();
  }

  Overlay& overlay_;
  Scenario scenario_;
  controller::GroupRegistry registry_;
  controller::SessionNumbers numbers_;
  std::uint32_t epoch_ = 0;
};

// The simulation has one thread; what the threads of communicators ask of the node waits until
// settle() runs it there.
class SimulatedHost final : public MemberHost {
 public:
  SimulatedHost(SimulatedController& controller, DataPlane& node) : controller_(controller), node_(node) {}

  [[nodiscard]] const std::string& name() const override { return node_.name(); }
  Result<GroupPart> join_group(const GroupSpec& group, Rank /*member*/, Duration timeout) override {
    SQUARE_ASSIGN_OR_RETURN(GroupRegistration made, register_group(group, timeout));
    return GroupPart{std::move(made), nullptr};
  }
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration /*timeout*/) override {
    return controller_.register_group(group);
  }
  void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) override {
    {
      const std::lock_guard lock(mutex_);
      groups_[collective] = group;
    }
    node_.set_members(collective, std::move(group), std::move(ranks));
  }
  void post(MemberOperation operation) override {
    const CollectiveId collective = operation.collective;
    const std::uint32_t rank = operation.rank.value();
    at_home(collective, rank, [this, moved = std::make_shared<MemberOperation>(std::move(operation))] {
      node_.post(std::move(*moved));
    });
  }
  void cancel(CollectiveId collective, OperationId operation) override {
    at_home(collective, kNoRank, [this, collective, operation] { node_.cancel(collective, operation); });
  }
  void fail(CollectiveId collective, OperationId operation, Status cause) override {
    at_home(collective, kNoRank, [=, this] { node_.fail(collective, operation, cause); });
  }
  [[nodiscard]] const Clock& clock() const override { return node_.clock(); }
  void after(Duration delay, std::function<void()> then) override { node_.after(delay, std::move(then)); }
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override {
    node_.watch(collective, operation, timeout, std::move(arrived));
  }
  void describe(CollectiveId collective, OperationId operation,
                std::function<void(std::string waits_for)> receive) override {
    node_.describe(collective, operation, std::move(receive));
  }

  // Runs what waits, in an order that does not depend on threads. Whether there was anything.
  bool run_waiting() {
    std::vector<Task> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(waiting_);
    }
    std::ranges::stable_sort(tasks, {}, [](const Task& task) -> const std::pair<std::string, std::uint32_t>& {
      return task.order;
    });
    for (const Task& task : tasks) task.run();
    return !tasks.empty();
  }

 private:
  static constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
  struct Task {
    std::pair<std::string, std::uint32_t> order;  // group and rank; those of one rank keep their order
    std::function<void()> run;
  };

  void at_home(CollectiveId collective, std::uint32_t rank, std::function<void()> run) {
    if (std::this_thread::get_id() == home_) return run();
    const std::lock_guard lock(mutex_);
    waiting_.push_back({{groups_[collective], rank}, std::move(run)});
  }

  SimulatedController& controller_;
  DataPlane& node_;
  const std::thread::id home_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::map<CollectiveId, std::string> groups_;
  std::vector<Task> waiting_;
};

}  // namespace square::test

namespace square {

// The thread of a communicator, for who must wait until it rests.
struct CommunicatorThread {
  static bool is_resting(const Communicator& member) { return member.composite_->is_resting(); }
};

}  // namespace square

namespace square::test {

// Until the threads of all members rest and their nodes know what they asked for: time may go on.
inline void settle(const std::vector<std::unique_ptr<SimulatedHost>>& hosts,
                   const std::vector<const Communicator*>& members) {
  for (bool any = true; any;) {
    for (const Communicator* member : members) {
      while (!CommunicatorThread::is_resting(*member)) std::this_thread::yield();
    }
    any = false;
    for (const auto& host : hosts) any = host->run_waiting() || any;
  }
}

}  // namespace square::test
