#include "square/planner.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/planning_steps.h"
#include "planning/problem/problem.h"
#include "planning/quick/extension.h"
#include "planning/quick/quick_plan.h"
#include "planning/scales.h"
#include "square/clock.h"
#include "square/validator.h"

namespace square {

const planning::PolicyEntry& planning::policy_of(const Scenario& scenario) {
  const PolicyEntry* entry = find_policy(scenario.policy.name);
  SQUARE_CHECK(entry != nullptr, "a policy that check_scenario() let through");
  return *entry;
}

namespace {

// Runs `make`, says how long it took, and checks what it made.
template <typename Make>
Result<PlanResult> checked(Make&& make) {
  const TimePoint start = steady_clock().now();
  SQUARE_ASSIGN_OR_RETURN(PlanResult result, make());
  result.plan.solve_seconds = to_seconds(steady_clock().now() - start);
  const Phase phase("checking the plan");
  if (const Status status = validate(result.plan); !status.is_ok()) {
    return internal_error(
        fmt::format("the planner made a plan that breaks its own rules: {}", status.message()));
  }
  return result;
}

Result<planning::Problem> quick_problem_of(const Scenario& scenario) {
  planning::Problem problem;
  SQUARE_ASSIGN_OR_RETURN(problem.network, planning::with_headroom(scenario));
  SQUARE_ASSIGN_OR_RETURN(problem.sessions,
                          planning::expand_sessions(scenario, planning::policy_of(scenario).expansion));
  planning::index_sessions(scenario, problem);
  return problem;
}

Result<PlanResult> quick_plan_of(const Scenario& scenario) {
  SQUARE_ASSIGN_OR_RETURN(const planning::Problem problem, quick_problem_of(scenario));
  SQUARE_ASSIGN_OR_RETURN(Plan plan, planning::quick_plan(problem));
  return PlanResult{std::move(plan), {}};
}

}  // namespace

Result<PlanResult> planning::plan_with(Policy& policy, const Scenario& scenario, const PlanOptions& options) {
  auto result = checked([&] { return policy.plan(scenario, options); });
  if (result.status().code() != StatusCode::kInternal) return result;
  // Figures that are very far apart are out of a solver's reach.
  const auto measurable = policy_of(scenario).meets_demands ? without_unmeasurable(scenario) : std::nullopt;
  if (measurable) {
    auto second = checked([&] { return policy.plan(*measurable, options); });
    if (second.is_ok()) return second;
  }
  return with_scales(scenario, result.status());
}

Result<PlanResult> make_plan(const Scenario& scenario, const PlanOptions& options) {
  return spend(options.budget, [&]() -> Result<PlanResult> {
    SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
    return planning::plan_with(*planning::policy_of(scenario).make(), scenario, options);
  });
}

Result<PlanResult> make_quick_plan(const Scenario& scenario, const PlanOptions& options) {
  return spend(options.budget, [&]() -> Result<PlanResult> {
    SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
    return checked([&] { return quick_plan_of(scenario); });
  });
}

std::optional<PlanResult> planning::extended_plan(const Scenario& scenario, const Plan& base) {
  if (base.policy != scenario.policy.name || !check_scenario(scenario).is_ok()) return std::nullopt;
  const auto extended = checked([&]() -> Result<PlanResult> {
    SQUARE_ASSIGN_OR_RETURN(const Problem problem, quick_problem_of(scenario));
    SQUARE_ASSIGN_OR_RETURN(std::optional<Plan> plan, extend_plan(problem, base));
    if (!plan) return not_found("the scenario is too different");
    return PlanResult{*std::move(plan), {}};
  });
  return extended.is_ok() ? std::optional(*extended) : std::nullopt;
}

Result<std::vector<FrontierPoint>> cost_frontier(const Scenario& scenario, int points, const Budget& budget) {
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  if (points < 2 || points > kMaxFrontierPoints) {
    return invalid_argument(fmt::format("a frontier of {} points: give 2 to {}", points, kMaxFrontierPoints));
  }
  return spend(budget, [&] { return planning::policy_of(scenario).make()->frontier(scenario, points); });
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const planning::PolicyEntry& policy : planning::policies()) names.push_back(policy.name);
  return names;
}

}  // namespace square
