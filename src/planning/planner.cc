#include "square/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "planning/exact/exact_plan.h"
#include "planning/planning_steps.h"
#include "planning/policy.h"
#include "planning/square/assembly.h"
#include "planning/square/shots.h"
#include "square/clock.h"
#include "square/validator.h"

namespace square {
namespace {

// check_scenario() knows the names.
const planning::Policy& policy_named(std::string_view name) {
  const std::vector<const planning::Policy*>& all = planning::policies();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto* policy) { return policy->name() == name; });
  SQUARE_CHECK(found != all.end(), "a policy that check_scenario() let through");
  return **found;
}

void index_sessions(const Scenario& scenario, planning::Problem& problem) {
  problem.scenario = &scenario;
  problem.weight = planning::collective_weights(scenario);
  problem.sessions_of.resize(scenario.collectives.size());
  for (std::size_t i = 0; i < problem.sessions.size(); ++i) {
    problem.sessions_of[problem.sessions[i].collective].push_back(i);
  }
}

Result<PlanResult> plan_by_paths(const Scenario& scenario, const planning::Policy& policy) {
  planning::Problem problem;
  problem.network = planning::planning_network(scenario.topology);
  SQUARE_ASSIGN_OR_RETURN(problem.sessions,
                          planning::expand_sessions(scenario, {policy.splits_multicasts(), false}));
  SQUARE_ASSIGN_OR_RETURN(problem.paths, policy.paths(scenario, problem.sessions));
  index_sessions(scenario, problem);
  SQUARE_ASSIGN_OR_RETURN(planning::ShotsAnswer shots,
                          planning::run_shots(problem, policy.shots(scenario.policy)));
  SQUARE_ASSIGN_OR_RETURN(Plan plan, planning::assemble(problem, shots, policy.name()));
  return PlanResult{std::move(plan), std::move(shots.trace)};
}

Result<planning::Problem> exact_problem(const Scenario& scenario) {
  planning::Problem problem;
  SQUARE_ASSIGN_OR_RETURN(problem.network, planning::with_headroom(scenario));
  SQUARE_ASSIGN_OR_RETURN(problem.sessions, planning::expand_sessions(scenario, {false, true}));
  index_sessions(scenario, problem);
  return problem;
}

Result<Plan> plan_exactly(const Scenario& scenario, const PlanOptions& options,
                          planning::ExactMemory* memory) {
  SQUARE_ASSIGN_OR_RETURN(const planning::Problem problem, exact_problem(scenario));
  return planning::exact_plan(problem, options, memory);
}

// The same without headroom, for what headroom costs.
Result<PlanHeadroom> compare_with_nominal(const Scenario& scenario, const PlanOptions& options) {
  Scenario nominal = scenario;
  nominal.policy.headroom = 0.0;
  SQUARE_ASSIGN_OR_RETURN(const Plan plan, plan_exactly(nominal, options, nullptr));
  PlanHeadroom headroom{scenario.policy.headroom, kUnlimited, 0.0};
  for (const PlanCollective& collective : plan.collectives) {
    const double rate = options.streams ? collective.rate_bps : collective.lp_rate_bps;
    if (collective.sessions.empty()) continue;
    headroom.nominal_min_rate_bps = std::min(headroom.nominal_min_rate_bps, rate);
    headroom.nominal_total_rate_bps += rate;
  }
  if (!std::isfinite(headroom.nominal_min_rate_bps)) headroom.nominal_min_rate_bps = 0.0;
  return headroom;
}

}  // namespace

Result<PlanResult> planning::plan_with(const Scenario& scenario, const PlanOptions& options,
                                       ExactMemory* memory) {
  const TimePoint start = steady_clock().now();
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  PlanResult result;
  if (scenario.policy.name == planning::kExactPolicy) {
    SQUARE_ASSIGN_OR_RETURN(result.plan, plan_exactly(scenario, options, memory));
    if (scenario.policy.headroom > 0.0) {
      SQUARE_ASSIGN_OR_RETURN(result.plan.headroom, compare_with_nominal(scenario, options));
    }
  } else {
    SQUARE_ASSIGN_OR_RETURN(result, plan_by_paths(scenario, policy_named(scenario.policy.name)));
  }
  result.plan.solve_seconds = to_seconds(steady_clock().now() - start);
  if (const Status status = validate(result.plan); !status.is_ok()) {
    return internal_error(
        fmt::format("the planner made a plan that breaks its own rules: {}", status.message()));
  }
  return result;
}

Result<PlanResult> make_plan(const Scenario& scenario, const PlanOptions& options) {
  return planning::plan_with(scenario, options, nullptr);
}

Result<std::vector<FrontierPoint>> cost_frontier(const Scenario& scenario, int points) {
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  if (scenario.policy.name != planning::kExactPolicy) {
    return invalid_argument(fmt::format("policy \"{}\" has no cost frontier: use name = \"{}\"",
                                        scenario.policy.name, planning::kExactPolicy));
  }
  if (points < 2 || points > kMaxFrontierPoints) {
    return invalid_argument(fmt::format("a frontier of {} points: give 2 to {}", points, kMaxFrontierPoints));
  }
  SQUARE_ASSIGN_OR_RETURN(const planning::Problem problem, exact_problem(scenario));
  return planning::exact_frontier(problem, points);
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const planning::Policy* policy : planning::policies()) {
    names.push_back(policy->name());
    if (names.size() == 1) names.push_back(planning::kExactPolicy);
  }
  return names;
}

}  // namespace square
