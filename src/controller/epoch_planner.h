// Makes the plan of the next epoch, ready to be published.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "controller/admission.h"
#include "controller/session_numbers.h"
#include "square/planner.h"

namespace square::controller {

// How long the policy's own plan is waited for before a quick one is made: together a tenth of a second.
inline constexpr Duration kPlanPatience = std::chrono::milliseconds(50);

// Each plan starts from the one before, and sessions keep their numbers. Not thread-safe, but stop() may
// come from any thread.
class EpochPlanner {
 public:
  EpochPlanner() : EpochPlanner(PlanOrigin{}) {}
  // `ready` as of a BackgroundPlanner: take_better() has something.
  explicit EpochPlanner(
      const PlanOrigin& origin, std::function<void()> ready = [] {})
      : origin_(origin), planner_(std::move(ready)) {}

  // Blocks while it plans: provisional plans in about a tenth of a second, where the policy's own takes
  // longer. Plans that are made and not published share an epoch. Errors: those of make_plan(),
  // RESOURCE_EXHAUSTED for more than kMaxPlanBytes.
  Result<PublishedPlanPtr> make(const Scenario& scenario);
  // The policy's own plan in the place of the provisional one that make() gave last, once; or why there is
  // none. nullopt: not yet. Does not wait.
  std::optional<Result<PublishedPlanPtr>> take_better();
  // Whether a better one may come for this plan.
  [[nodiscard]] bool betters(const PublishedPlan& made) const { return made.plan == provisional_; }
  // The plan that make() gave last is not published: no better one comes for it.
  void drop() { provisional_.reset(); }
  // The plan that is being made ends with CANCELLED, and so do all that follow.
  void stop() { planner_.stop(); }

  // Plans made from now on have later epochs.
  void note_published(const PublishedPlan& published) { last_ = published.plan->epoch; }
  // Plans made from now on have later epochs than this one.
  void pass(Epoch epoch) { last_ = std::max(last_, epoch); }
  [[nodiscard]] Epoch last() const { return last_; }
  [[nodiscard]] SessionNumbers& numbers() { return numbers_; }

 private:
  Result<PublishedPlanPtr> ready_to_publish(Plan plan);

  PlanOrigin origin_;
  BackgroundPlanner planner_;
  std::shared_ptr<const Plan> provisional_;  // the last that make() gave, if a better one is under way
  SessionNumbers numbers_;
  Epoch last_{0};  // published, or passed
};

}  // namespace square::controller
