// Makes the plan of the next epoch, ready to be published.
#pragma once

#include "controller/admission.h"
#include "controller/session_numbers.h"
#include "square/planner.h"

namespace square::controller {

// Each plan starts from the one before, and sessions keep their numbers. Not thread-safe.
class EpochPlanner {
 public:
  // Blocks while it plans. Plans that are made and not published share an epoch. Errors: those of
  // make_plan(), RESOURCE_EXHAUSTED for more than kMaxPlanBytes.
  Result<PublishedPlanPtr> make(const Scenario& scenario);

  // Plans made from now on have later epochs.
  void note_published(const PublishedPlan& published) { last_ = published.plan->epoch; }

 private:
  Planner planner_;
  SessionNumbers numbers_;
  Epoch last_{0};  // published
};

}  // namespace square::controller
