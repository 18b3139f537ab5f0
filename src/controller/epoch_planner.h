// Makes the plan of the next epoch, ready to be published.
#pragma once

#include <algorithm>

#include "controller/admission.h"
#include "controller/session_numbers.h"
#include "square/planner.h"

namespace square::controller {

// Each plan starts from the one before, and sessions keep their numbers. Not thread-safe.
class EpochPlanner {
 public:
  EpochPlanner() = default;
  explicit EpochPlanner(const PlanOrigin& origin) : origin_(origin) {}

  // Blocks while it plans. Plans that are made and not published share an epoch. Errors: those of
  // make_plan(), RESOURCE_EXHAUSTED for more than kMaxPlanBytes.
  Result<PublishedPlanPtr> make(const Scenario& scenario);

  // Plans made from now on have later epochs.
  void note_published(const PublishedPlan& published) { last_ = published.plan->epoch; }
  // Plans made from now on have later epochs than this one.
  void pass(Epoch epoch) { last_ = std::max(last_, epoch); }
  [[nodiscard]] Epoch last() const { return last_; }
  [[nodiscard]] SessionNumbers& numbers() { return numbers_; }

 private:
  PlanOrigin origin_;
  Planner planner_;
  SessionNumbers numbers_;
  Epoch last_{0};  // published, or passed
};

}  // namespace square::controller
