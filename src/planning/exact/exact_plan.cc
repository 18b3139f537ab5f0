#include "planning/exact/exact_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/few_streams.h"
#include "planning/exact/plan_writing.h"

namespace square::planning {
namespace {

std::vector<std::pair<Column, double>> flows_of(const Carried& carried) {
  std::vector<std::pair<Column, double>> flows;
  for (std::size_t i = 0; i < carried.trees.size(); ++i) {
    for (const Carried::Tree& tree : carried.trees[i])
      flows.emplace_back(Column{i, tree.links, tree.usage, {}, tree.code}, tree.rate);
  }
  return flows;
}

// Paths for all that the plan says is allowed: where rates come from cuts, a little less than those.
void show_flows(const Instance& instance, ExactSolution& solution) {
  solution.flows = flows_of(*solution.carried);
  solution.lp_share = shares_of(instance, *solution.carried);
  std::vector<double> rate(instance.demands.size(), 0.0);
  for (const auto& [column, bps] : solution.flows) rate[column.demand] += bps;
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    double shown = 0.0;
    for (const Alternative& alternative : instance.groups[c].alternatives) {
      double least = kUnreachable;
      for (std::size_t k = 0; k < alternative.demands.size(); ++k)
        least = std::min(least, rate[alternative.demands[k]] / alternative.fractions[k]);
      shown += least;
    }
    solution.lp_rate[c] = std::min(solution.lp_rate[c], shown);
  }
}

}  // namespace

Result<Plan> exact_plan(const Problem& problem, const PlanOptions& options, ExactMemory* memory) {
  const Phase phase("reading what is asked for");
  SQUARE_ASSIGN_OR_RETURN(const Instance instance, make_instance(problem));
  // What it remembers are trees, and where programs over them ended.
  if (std::ranges::any_of(instance.demands, [](const Demand& demand) { return demand.redundancy > 0; }))
    memory = nullptr;
  if (memory != nullptr) memory->align(problem.topology());
  const PolicySpec& policy = problem.scenario->policy;
  SQUARE_ASSIGN_OR_RETURN(ExactSolution solution, policy.objective == Objective::kCost
                                                      ? solve_cost(instance, options.streams)
                                                      : solve_fair(instance, options.streams, memory));
  if (policy.max_streams > 0 && solution.carried.has_value()) {
    // What more streams would carry is what the program allows.
    if (solution.flows.empty()) show_flows(instance, solution);
    SQUARE_ASSIGN_OR_RETURN(solution.carried, carry_by_few(instance, *solution.carried, policy.max_streams));
  }
  return write_plan(problem, instance, solution);
}

}  // namespace square::planning
