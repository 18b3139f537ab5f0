#include "square/planner.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "planning/assembly.h"
#include "planning/policy.h"
#include "planning/shots.h"
#include "square/clock.h"
#include "square/validator.h"

namespace square {
namespace {

Result<const planning::Policy*> find_policy(const PolicySpec& spec) {
  if (spec.shots < 1 || spec.shots > kMaxShots) {
    return invalid_argument(fmt::format("policy: shots is {}; give 1 to {}", spec.shots, kMaxShots));
  }
  if (spec.paths.k > kMaxPaths) {
    return invalid_argument(
        fmt::format("policy: {} paths a destination; give at most {}", spec.paths.k, kMaxPaths));
  }
  for (const planning::Policy* policy : planning::policies()) {
    if (policy->name() == spec.name) return policy;
  }
  std::string known;
  for (const std::string_view name : policy_names()) {
    if (!known.empty()) known += ", ";
    known += name;
  }
  return invalid_argument(
      fmt::format("policy: there is no policy \"{}\"; choose one of {}", spec.name, known));
}

Result<planning::Problem> make_problem(const Scenario& scenario, const planning::Policy& policy) {
  planning::Problem problem;
  problem.scenario = &scenario;
  problem.network = planning::planning_network(scenario.topology);
  SQUARE_ASSIGN_OR_RETURN(problem.sessions, planning::expand_sessions(scenario, policy.splits_multicasts()));
  SQUARE_ASSIGN_OR_RETURN(problem.paths, policy.paths(scenario, problem.sessions));
  problem.weight = planning::collective_weights(scenario);
  problem.sessions_of.resize(scenario.collectives.size());
  for (std::size_t i = 0; i < problem.sessions.size(); ++i) {
    problem.sessions_of[problem.sessions[i].collective].push_back(i);
  }
  return problem;
}

}  // namespace

Result<PlanResult> make_plan(const Scenario& scenario) {
  const TimePoint start = steady_clock().now();
  SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
  SQUARE_ASSIGN_OR_RETURN(const planning::Policy* policy, find_policy(scenario.policy));
  SQUARE_ASSIGN_OR_RETURN(const planning::Problem problem, make_problem(scenario, *policy));
  SQUARE_ASSIGN_OR_RETURN(planning::ShotsAnswer shots,
                          planning::run_shots(problem, policy->shots(scenario.policy)));
  SQUARE_ASSIGN_OR_RETURN(Plan plan, planning::assemble(problem, shots, policy->name()));
  plan.solve_seconds = to_seconds(steady_clock().now() - start);
  if (const Status status = validate(plan); !status.is_ok()) {
    return internal_error(
        fmt::format("the planner made a plan that breaks its own rules: {}", status.message()));
  }
  return PlanResult{std::move(plan), std::move(shots.trace)};
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const planning::Policy* policy : planning::policies()) names.push_back(policy->name());
  return names;
}

}  // namespace square
