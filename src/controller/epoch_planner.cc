#include "controller/epoch_planner.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace square::controller {

Result<PublishedPlanPtr> EpochPlanner::make(const Scenario& scenario) {
  is_given_up_ = is_given_up_ || (provisional_ != nullptr && provisional_ == published_);
  provisional_.reset();
  SQUARE_ASSIGN_OR_RETURN(PlanResult result, plans_->plan(scenario));
  SQUARE_ASSIGN_OR_RETURN(PublishedPlanPtr made, ready_to_publish(std::move(result.plan)));
  if (made->plan->provisional) provisional_ = made->plan;
  return made;
}

bool EpochPlanner::take_better(std::optional<Admission>& admission, const PlanningState& state) {
  std::optional<Result<PlanResult>> own = plans_->take_better();
  if (!own.has_value() || provisional_ == nullptr) return false;
  provisional_.reset();
  Result<PublishedPlanPtr> better =
      own->is_ok() ? ready_to_publish(std::move((*own)->plan)) : Result<PublishedPlanPtr>(own->status());
  if (!better.is_ok()) {
    log(LogLevel::kError, "controller", "the provisional plan stays: {}", better.status().to_string());
    return false;
  }
  // Of what was planned before, with what is new on top: another one follows.
  if ((*better)->plan->provisional) provisional_ = (*better)->plan;
  if (!admission) admission = Admission{state, nullptr, false, {}, {}};
  admission->next = *std::move(better);
  admission->is_whole = is_whole_;
  return true;
}

bool EpochPlanner::note_published(const PublishedPlan& published, bool is_whole) {
  last_ = published.plan->epoch;
  last_parts_ = published.parts;
  numbers_ = *published.numbers;
  is_whole_ = is_whole;
  plan_again_ = published.plan->provisional && published.plan != provisional_;
  published_ = published.plan == provisional_ ? provisional_ : nullptr;
  is_given_up_ = false;
  return plan_again_;
}

bool EpochPlanner::note_kept() {
  plan_again_ = std::exchange(is_given_up_, false) || plan_again_;
  return plan_again_;
}

void EpochPlanner::note_replanned(const Status& outcome) {
  if (outcome.is_ok()) return;
  plan_again_ = true;
  log(LogLevel::kError, "controller", "cannot plan again, the old plan stays: {}", outcome.to_string());
}

Result<PublishedPlanPtr> EpochPlanner::ready_to_publish(Plan plan) {
  // The last plan made need not be the one that was published.
  plan.changes.reset();
  auto numbers = std::make_shared<SessionNumbers>(numbers_);
  renumber_sessions(plan, *numbers);
  plan.epoch = Epoch(last_.value() + 1);
  plan.origin = origin_;
  auto made = std::make_shared<const Plan>(std::move(plan));
  KeptWays kept = kept_.parts && can_keep(kept_.parts->whole(), *made) ? kept_ : KeptWays{};
  std::erase_if(kept.collectives,
                [&](CollectiveId id) { return kept.parts->since(id).value_or(passed_) <= passed_; });
  auto parts = std::make_shared<const PlanParts>(made, last_parts_.get(), passed_, kept);
  if (parts->size_bytes() > kMaxPlanBytes) {
    return resource_exhausted(
        fmt::format("the plan takes {} bytes, more than {}", parts->size_bytes(), kMaxPlanBytes));
  }
  return std::make_shared<const PublishedPlan>(
      PublishedPlan{std::move(made), std::move(parts), std::move(numbers)});
}

}  // namespace square::controller
