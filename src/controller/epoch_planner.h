// Makes the plan of the next epoch, ready to be published.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "controller/admission.h"
#include "controller/plan_source.h"
#include "controller/session_numbers.h"

namespace square::controller {

// Each plan starts from the one before, and sessions keep their numbers. Not thread-safe, but stop() may
// come from any thread.
class EpochPlanner {
 public:
  EpochPlanner(const PlanOrigin& origin, std::unique_ptr<PlanSource> plans)
      : origin_(origin), plans_(std::move(plans)) {}

  // Blocks while the plan is made. Plans that are made and not published share an epoch. Errors: those of
  // make_plan(), RESOURCE_EXHAUSTED for more than kMaxPlanBytes.
  Result<PublishedPlanPtr> make(const Scenario& scenario);
  // The policy's own plan in the place of the provisional one that was published last, once it is ready:
  // makes it the admission's, which is one of `state` where there is none yet. Returns whether it is.
  // Does not wait.
  bool take_better(std::optional<Admission>& admission, const PlanningState& state);
  // The plan that make() gave last is not published: no better one comes for it.
  void drop() { provisional_.reset(); }
  // The plan that is being made ends with CANCELLED, and so do all that follow.
  void stop() { plans_->stop(); }

  // Plans made from now on have later epochs. `is_whole` as in Admission. Returns whether it must be planned
  // again: it is provisional, and no better one will come by itself.
  bool note_published(const PublishedPlan& published, bool is_whole);
  // The same of a plan that stays, as nothing came of what was to follow it: the better one of it, which was
  // under way, ended by that.
  bool note_kept();
  // What came of planning again what was planned before. Where it failed, the old plan stays, and it is tried
  // again with the next change.
  void note_replanned(const Status& outcome);
  // Whether one of them said so since the last call.
  bool take_plan_again() { return std::exchange(plan_again_, false); }
  // Plans made from now on have later epochs than this one, which a node has had from an earlier controller,
  // and nothing in them is as it is since that one or before.
  void pass(Epoch epoch) {
    last_ = std::max(last_, epoch);
    passed_ = std::max(passed_, epoch);
  }
  // Plans made from now on leave these collectives as they are.
  void keep(KeptWays kept) { kept_ = std::move(kept); }
  [[nodiscard]] Epoch last() const { return last_; }
  [[nodiscard]] SessionNumbers& numbers() { return numbers_; }

 private:
  Result<PublishedPlanPtr> ready_to_publish(Plan plan);

  PlanOrigin origin_;
  std::unique_ptr<PlanSource> plans_;
  std::shared_ptr<const Plan> provisional_;  // the last that make() gave, if a better one is under way
  std::shared_ptr<const Plan> published_;    // the last, while a better one of it is under way
  bool is_given_up_ = false;                 // it was, and make() ended it
  SessionNumbers numbers_;
  Epoch last_{0};  // published, or passed
  Epoch passed_{0};
  std::shared_ptr<const PlanParts> last_parts_;  // published
  KeptWays kept_;
  bool is_whole_ = false;  // what was published last leads through nodes that are away
  bool plan_again_ = false;
};

}  // namespace square::controller
