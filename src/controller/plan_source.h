// Where plans come from, and when.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "square/planner.h"

namespace square::controller {

// Not thread-safe, but stop() may come from any thread.
class PlanSource {
 public:
  virtual ~PlanSource() = default;
  // A plan, provisional where the policy's own takes longer than nodes should wait. Errors: those of
  // make_plan().
  virtual Result<PlanResult> plan(const Scenario& scenario) = 0;
  // The policy's own plan in the place of the provisional one that plan() gave last, once; or why there is
  // none. nullopt: not yet.
  virtual std::optional<Result<PlanResult>> take_better() = 0;
  // The plan that is being made ends with CANCELLED, and so do all that follow.
  virtual void stop() = 0;
};

// `ready` is called, on any thread, no lock held, when take_better() has something to give.
using PlanSourceFactory = std::function<std::unique_ptr<PlanSource>(std::function<void()> ready)>;

// How long the policy's own plan is waited for before a quick one is made: together a tenth of a second.
inline constexpr Duration kPlanPatience = std::chrono::milliseconds(50);

// Plans on a thread of its own, with kPlanPatience.
std::unique_ptr<PlanSource> make_background_plan_source(std::function<void()> ready);

}  // namespace square::controller
