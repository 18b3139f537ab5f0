#include "planning/exact/exact_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/jobs.h"
#include "planning/exact/plan_writing.h"
#include "planning/exact/stream_limit.h"

namespace square::planning {
namespace {

Result<ExactSolution> solve(const Problem& problem, const Instance& instance, bool streams,
                            ExactMemory* memory) {
  const PolicySpec& policy = problem.scenario->policy;
  const bool in_turn =
      policy.objective == Objective::kFair && !policy.budget_usd_per_hour && has_sequences(problem);
  if (in_turn) return solve_jobs(problem, instance, streams, memory);
  SQUARE_ASSIGN_OR_RETURN(ExactSolution solution, policy.objective == Objective::kCost
                                                      ? solve_cost(instance, streams)
                                                      : solve_fair(instance, streams, memory));
  SQUARE_RETURN_IF_ERROR(limit_streams(instance, solution));
  return solution;
}

}  // namespace

Result<Plan> exact_plan(const Problem& problem, const PlanOptions& options, ExactMemory* memory) {
  const Phase phase("reading what is asked for");
  SQUARE_ASSIGN_OR_RETURN(const Instance instance, make_instance(problem));
  // What it remembers are trees, and where programs over them ended.
  if (std::ranges::any_of(instance.demands, [](const Demand& demand) { return demand.redundancy > 0; }))
    memory = nullptr;
  if (memory != nullptr) memory->align(problem.topology());
  SQUARE_ASSIGN_OR_RETURN(const ExactSolution solution, solve(problem, instance, options.streams, memory));
  return write_plan(problem, instance, solution);
}

}  // namespace square::planning
