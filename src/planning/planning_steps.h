// From a scenario to a plan, with what was left by the plan before.
#pragma once

#include "planning/exact/memory.h"
#include "square/planner.h"

namespace square::planning {

// As make_plan(). With a memory the policy "exact" starts from it, and leaves in it what
// the next plan can start from; after an error it is as good as before.
Result<PlanResult> plan_with(const Scenario& scenario, const PlanOptions& options, ExactMemory* memory);

}  // namespace square::planning
