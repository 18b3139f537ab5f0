// The steps from a scenario to a plan that make_plan() and Planner share.
#pragma once

#include "planning/policy.h"
#include "square/planner.h"

namespace square::planning {

// The policy that the scenario names; check_scenario() must have let it through.
const PolicyEntry& policy_of(const Scenario& scenario);

// Plans and validates. Errors: those of the policy; INTERNAL for a plan that breaks a rule.
Result<PlanResult> plan_with(Policy& policy, const Scenario& scenario, const PlanOptions& options);

}  // namespace square::planning
