#include "planning/square/policies.h"

#include <utility>

#include "base/check.h"
#include "planning/square/assembly.h"
#include "planning/square/shots.h"

namespace square::planning {
namespace {

class PathPolicy final : public Policy {
 public:
  explicit PathPolicy(const PathRules& rules) : rules_(rules) {}

  Result<PlanResult> plan(const Scenario& scenario, const PlanOptions&) override {
    SQUARE_ASSIGN_OR_RETURN(const Problem problem, path_problem(scenario, rules_));
    const int shots = rules_.takes_shots ? scenario.policy.shots : 0;
    SQUARE_ASSIGN_OR_RETURN(ShotsAnswer answer, run_shots(problem, shots));
    SQUARE_ASSIGN_OR_RETURN(Plan plan, assemble(problem, answer, scenario.policy.name));
    return PlanResult{std::move(plan), std::move(answer.trace)};
  }

 private:
  PathRules rules_;
};

}  // namespace

Result<Problem> path_problem(const Scenario& scenario, const PathRules& rules) {
  Problem problem;
  problem.network = planning_network(scenario.topology);
  SQUARE_ASSIGN_OR_RETURN(problem.sessions, expand_sessions(scenario, {rules.splits_multicasts, false}));
  SQUARE_ASSIGN_OR_RETURN(problem.paths, rules.paths(scenario, problem.sessions));
  index_sessions(scenario, problem);
  return problem;
}

std::unique_ptr<Policy> make_path_policy(const PathRules& rules) {
  return std::make_unique<PathPolicy>(rules);
}

}  // namespace square::planning
