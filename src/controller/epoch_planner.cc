#include "controller/epoch_planner.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"

namespace square::controller {

Result<PublishedPlanPtr> EpochPlanner::make(const Scenario& scenario) {
  SQUARE_ASSIGN_OR_RETURN(PlanResult result, planner_.plan(scenario));
  // The last plan made need not be the one that was published.
  result.plan.changes.reset();
  renumber_sessions(result.plan, numbers_);
  result.plan.epoch = Epoch(last_.value() + 1);
  result.plan.origin = origin_;
  std::string json = to_json(result.plan);
  if (json.size() > kMaxPlanBytes) {
    return resource_exhausted(
        fmt::format("the plan takes {} bytes, more than {}", json.size(), kMaxPlanBytes));
  }
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_plan()->set_epoch(result.plan.epoch.value());
  event->mutable_plan()->set_json(std::move(json));
  return std::make_shared<const PublishedPlan>(
      PublishedPlan{std::make_shared<const Plan>(std::move(result.plan)), std::move(event), false});
}

}  // namespace square::controller
