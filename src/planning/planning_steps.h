// The steps from a scenario to a plan that make_plan() and Planner share.
#pragma once

#include <optional>

#include "planning/policy.h"
#include "square/planner.h"

namespace square::planning {

// The policy that the scenario names; check_scenario() must have let it through.
const PolicyEntry& policy_of(const Scenario& scenario);

// Plans and validates. Errors: those of the policy; INTERNAL for a plan that breaks a rule.
Result<PlanResult> plan_with(Policy& policy, const Scenario& scenario, const PlanOptions& options);

// A provisional plan of the scenario that differs from `base`, of a like one, by what is other:
// extend_plan(), validated. nullopt where a plan of its own is to be made.
std::optional<PlanResult> extended_plan(const Scenario& scenario, const Plan& base);

}  // namespace square::planning
