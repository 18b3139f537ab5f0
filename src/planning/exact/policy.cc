#include "planning/exact/policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/exact_plan.h"
#include "planning/exact/memory.h"
#include "planning/quick/quick_plan.h"
#include "square/clock.h"

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

// Nothing better follows.
Result<Plan> quick_plan_of(const Scenario& scenario) {
  SQUARE_ASSIGN_OR_RETURN(const Problem problem, exact_problem(scenario));
  SQUARE_ASSIGN_OR_RETURN(Plan plan, quick_plan(problem));
  plan.provisional = false;
  return plan;
}

// From the least up: what each collective gets of its weight.
std::vector<double> levels_of(const Problem& problem, const Plan& plan) {
  std::vector<double> levels;
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
    if (!plan.collectives[c].sessions.empty())
      levels.push_back(plan.collectives[c].rate_bps / problem.weight[c]);
  }
  std::ranges::sort(levels);
  return levels;
}

bool has_deadline(const Scenario& scenario, const PlanOptions& options) {
  const PolicySpec& policy = scenario.policy;
  return policy.deadline_seconds.has_value() && policy.objective == Objective::kFair &&
         !policy.budget_usd_per_hour.has_value() && options.streams;
}

// Of the time what is left when rates were looked for, to make them streams: a part, and no more than this.
constexpr double kStreamsPart = 0.3;
constexpr double kStreamsSeconds = 5.0;
// What it may be late to end well: with a proof, if it is a small one.
constexpr Duration kGrace = std::chrono::milliseconds(40);

// The rates of the one, and what the other proves of all rates: the bound of its first level.
Plan with_bound_of(Plan plan, const Plan& other) {
  if (other.certificate.levels.empty()) return plan;
  PlanLevel first = other.certificate.levels.front();
  first.collectives.clear();
  for (const PlanLevel& level : other.certificate.levels)
    first.collectives.insert(first.collectives.end(), level.collectives.begin(), level.collectives.end());
  plan.certificate.levels = {std::move(first)};
  plan.certificate.level_bound_bps = other.certificate.level_bound_bps;
  return plan;
}

// Never below a quick plan, which is there when the time is over in the middle of something.
Result<Plan> plan_in_time(const Scenario& scenario, const PlanOptions& options, ExactMemory& memory) {
  const TimePoint end = steady_clock().now() + from_seconds(*scenario.policy.deadline_seconds);
  Scenario rest = scenario;
  Result<Plan> quick = quick_plan_of(rest);
  const double left = std::max(to_seconds(end - steady_clock().now()), 0.0);
  rest.policy.deadline_seconds = left - std::min(kStreamsPart * left, kStreamsSeconds);
  SQUARE_ASSIGN_OR_RETURN(const Problem problem, exact_problem(rest));
  const ExactMemory before = memory;
  Result<Plan> exact =
      spend(Budget::until(end + kGrace), [&] { return exact_plan(problem, options, &memory); });
  if (!exact.is_ok() && budget_is_spent()) return exact;  // the caller's
  if (!exact.is_ok()) memory = before;
  const bool is_over = exact.status().code() == StatusCode::kDeadlineExceeded;
  if (!quick.is_ok() || (!exact.is_ok() && !is_over)) return exact;
  if (!exact.is_ok()) return quick;
  if (levels_of(problem, *exact) >= levels_of(problem, *quick)) return exact;
  return with_bound_of(*std::move(quick), *exact);
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
    SQUARE_ASSIGN_OR_RETURN(result.plan, has_deadline(scenario, options)
                                             ? plan_in_time(scenario, options, next_)
                                             : plan_from(scenario, options, &next_));
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
