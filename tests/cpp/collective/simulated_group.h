// Communicators over simulated nodes, with a controller that is not there: groups are planned
// and the plan is published by the call that registers them, all under virtual time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
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
    node_.set_members(collective, std::move(group), std::move(ranks));
  }
  void post(MemberOperation operation) override { node_.post(std::move(operation)); }
  void cancel(CollectiveId collective, OperationId operation) override {
    node_.cancel(collective, operation);
  }
  void fail(CollectiveId collective, OperationId operation, Status cause) override {
    node_.fail(collective, operation, std::move(cause));
  }
  [[nodiscard]] const Clock& clock() const override { return node_.clock(); }
  void after(Duration delay, std::function<void()> then) override { node_.after(delay, std::move(then)); }
  // As if it added a byte in a nanosecond.
  void work(std::size_t bytes, const std::function<void()>& task, std::function<void()> then) override {
    node_.after(Duration(bytes), [task, then = std::move(then)] {
      task();
      then();
    });
  }
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override {
    node_.watch(collective, operation, timeout, std::move(arrived));
  }
  void describe(CollectiveId collective, OperationId operation,
                std::function<void(std::string waits_for)> receive) override {
    node_.describe(collective, operation, std::move(receive));
  }

 private:
  SimulatedController& controller_;
  DataPlane& node_;
};

}  // namespace square::test
