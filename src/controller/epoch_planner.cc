#include "controller/epoch_planner.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"

namespace square::controller {

Result<PublishedPlanPtr> EpochPlanner::make(const Scenario& scenario) {
  provisional_.reset();
  SQUARE_ASSIGN_OR_RETURN(PlanResult result, planner_.plan(scenario, kPlanPatience));
  SQUARE_ASSIGN_OR_RETURN(PublishedPlanPtr made, ready_to_publish(std::move(result.plan)));
  if (made->plan->provisional) provisional_ = made->plan;
  return made;
}

std::optional<Result<PublishedPlanPtr>> EpochPlanner::take_better() {
  std::optional<Result<PlanResult>> better = planner_.take_better();
  if (!better.has_value() || provisional_ == nullptr) return std::nullopt;
  provisional_.reset();
  if (!better->is_ok()) return better->status();
  return ready_to_publish(std::move((*better)->plan));
}

Result<PublishedPlanPtr> EpochPlanner::ready_to_publish(Plan plan) {
  // The last plan made need not be the one that was published.
  plan.changes.reset();
  renumber_sessions(plan, numbers_);
  plan.epoch = Epoch(last_.value() + 1);
  plan.origin = origin_;
  std::string json = to_json(plan);
  if (json.size() > kMaxPlanBytes) {
    return resource_exhausted(
        fmt::format("the plan takes {} bytes, more than {}", json.size(), kMaxPlanBytes));
  }
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_plan()->set_epoch(plan.epoch.value());
  event->mutable_plan()->set_json(std::move(json));
  return std::make_shared<const PublishedPlan>(
      PublishedPlan{std::make_shared<const Plan>(std::move(plan)), std::move(event), false});
}

}  // namespace square::controller
