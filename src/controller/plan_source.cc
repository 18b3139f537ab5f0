#include "controller/plan_source.h"

#include <utility>

namespace square::controller {
namespace {

class BackgroundPlanSource final : public PlanSource {
 public:
  explicit BackgroundPlanSource(std::function<void()> ready) : planner_(std::move(ready)) {}
  Result<PlanResult> plan(const Scenario& scenario) override {
    return planner_.plan(scenario, kPlanPatience);
  }
  std::optional<Result<PlanResult>> take_better() override { return planner_.take_better(); }
  void stop() override { planner_.stop(); }

 private:
  BackgroundPlanner planner_;
};

}  // namespace

std::unique_ptr<PlanSource> make_background_plan_source(std::function<void()> ready) {
  return std::make_unique<BackgroundPlanSource>(std::move(ready));
}

}  // namespace square::controller
