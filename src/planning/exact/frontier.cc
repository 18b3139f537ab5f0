// The frontier between rate and cost: one generation whose columns serve every point.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "planning/exact/exact_plan.h"
#include "planning/exact/solution.h"

namespace square::planning {
namespace {

using Kind = Targets::Kind;

// At the largest level itself a solver's tolerance decides whether there is any point.
constexpr double kWithin = 1.0 - 1e-7;

Targets fixed_targets(const Instance& instance, double level) {
  Targets targets = active_targets(instance);
  for (std::size_t c = 0; c < targets.kind.size(); ++c) {
    if (targets.kind[c] != Kind::kActive) continue;
    targets.kind[c] = Kind::kFixed;
    targets.rate[c] = level * targets.weight[c];
  }
  targets.link_cost = instance.price;
  return targets;
}

}  // namespace

Result<std::vector<FrontierPoint>> exact_frontier(const Problem& problem, int points) {
  SQUARE_ASSIGN_OR_RETURN(const Instance instance, make_instance(problem));
  std::vector<FrontierPoint> frontier;
  Generation generation(instance, generation_options(instance));
  Targets targets = active_targets(instance);
  if (std::find(targets.kind.begin(), targets.kind.end(), Kind::kActive) == targets.kind.end())
    return frontier;
  targets.unit = generation.seed(targets);
  if (targets.unit <= 0.0) return failed_precondition("no tree was found that keeps the latency bounds");
  SQUARE_ASSIGN_OR_RETURN(GenerationAnswer answer, generation.run(targets));
  const double largest = answer.master.objective * kWithin;
  // Dearest first: its columns are all that the cheaper points begin with.
  for (int k = points; k > 0; --k) {
    const Targets point = fixed_targets(instance, largest * k / points);
    SQUARE_ASSIGN_OR_RETURN(answer, generation.run(point, answer.basis));
    const Proof proof = prove(generation, point, answer.duals, answer.demand_cost, generation.options().gap);
    frontier.push_back({largest * k / points, answer.master.objective, std::max(proof.bound, 0.0)});
  }
  std::reverse(frontier.begin(), frontier.end());
  return frontier;
}

}  // namespace square::planning
