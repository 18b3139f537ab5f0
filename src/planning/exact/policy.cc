#include "planning/exact/policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "planning/exact/exact_plan.h"
#include "planning/exact/memory.h"

namespace square::planning {
namespace {

Result<Problem> exact_problem(const Scenario& scenario) {
  Problem problem;
  SQUARE_ASSIGN_OR_RETURN(problem.network, with_headroom(scenario));
  SQUARE_ASSIGN_OR_RETURN(problem.sessions, expand_sessions(scenario, kExactExpansion));
  index_sessions(scenario, problem);
  return problem;
}

Result<Plan> plan_from(const Scenario& scenario, const PlanOptions& options, ExactMemory* memory) {
  SQUARE_ASSIGN_OR_RETURN(const Problem problem, exact_problem(scenario));
  return exact_plan(problem, options, memory);
}

// The same without headroom, for what headroom costs.
Result<PlanHeadroom> compare_with_nominal(const Scenario& scenario, const PlanOptions& options) {
  Scenario nominal = scenario;
  nominal.policy.headroom = 0.0;
  SQUARE_ASSIGN_OR_RETURN(const Plan plan, plan_from(nominal, options, nullptr));
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

class Exact final : public Policy {
 public:
  Result<PlanResult> plan(const Scenario& scenario, const PlanOptions& options) override {
    PlanResult result;
    next_ = memory_;
    SQUARE_ASSIGN_OR_RETURN(result.plan, plan_from(scenario, options, &next_));
    if (scenario.policy.headroom > 0.0) {
      SQUARE_ASSIGN_OR_RETURN(result.plan.headroom, compare_with_nominal(scenario, options));
    }
    return result;
  }

  void start_from_last() override { memory_ = std::move(next_); }

  Result<std::vector<FrontierPoint>> frontier(const Scenario& scenario, int points) override {
    SQUARE_ASSIGN_OR_RETURN(const Problem problem, exact_problem(scenario));
    return exact_frontier(problem, points);
  }

 private:
  ExactMemory memory_;
  ExactMemory next_;  // of the plan that is being made, or was made last
};

}  // namespace

std::unique_ptr<Policy> make_exact() { return std::make_unique<Exact>(); }

}  // namespace square::planning
