// Communicators over simulated nodes, with a controller that is not there: groups are planned
// and the plan is published by the call that registers them, all under virtual time.
#pragma once

#include <memory>
#include <string>
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
  SimulatedController(Overlay& overlay, Topology topology) : overlay_(overlay), registry_(Scenario{}) {
    scenario_.topology = std::move(topology);
    scenario_.policy.name = "exact";
  }

  Result<GroupRegistration> register_group(const GroupSpec& group) {
    SQUARE_ASSIGN_OR_RETURN(auto registered, registry_.add(group, scenario_.topology));
    if (registered.changed) SQUARE_RETURN_IF_ERROR(publish());
    return GroupRegistration{std::move(registered.collectives), Epoch(epoch_)};
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
  SimulatedHost(SimulatedController& controller, Node& node) : controller_(controller), node_(node) {}

  [[nodiscard]] const std::string& name() const override { return node_.name(); }
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
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived) override {
    node_.watch(collective, operation, timeout, std::move(arrived));
  }

 private:
  SimulatedController& controller_;
  Node& node_;
};

}  // namespace square::test
