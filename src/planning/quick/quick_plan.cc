#include "planning/quick/quick_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/plan_writing.h"
#include "planning/quick/filling.h"
#include "planning/quick/trees.h"

namespace square::planning {
namespace {

// Trees of one demand, and of all demands together, if those have two each; and their links. Each is
// a stream that is written down, sent to nodes, and that nodes keep windows for and ask about. On 40 random
// meshes of 5 to 12 nodes 8 trees give the least collective 0.97 of the rate that 32 do; of 300 groups on
// 16 nodes 2 do, which even one another out.
constexpr std::size_t kMaxTrees = 32;
constexpr std::size_t kTreesOfAll = 384;
constexpr std::size_t kMaxAllTrees = 4'096;
constexpr std::size_t kMaxTreeLinks = 20'000;
// A tree that carries less than this part of its demand's rate is not worth a stream.
constexpr double kThin = 0.02;
// Sums of rates may be rounded up by a little.
constexpr double kWithin = 1.0 - 1e-9;

// Leaves each demand the trees that carry most. Whether there were more.
bool keep_widest(std::size_t count, const Filled& filled, std::vector<std::vector<QuickTree>>& trees) {
  bool dropped = false;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    const std::vector<double>& rate = filled.tree_rate[i];
    std::vector<std::size_t> order;
    double whole = 0.0;
    for (std::size_t t = 0; t < rate.size(); ++t) {
      order.push_back(t);
      whole += rate[t];
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return rate[a] > rate[b]; });
    std::size_t kept = std::min(count, order.size());
    while (kept > 1 && rate[order[kept - 1]] < kThin * whole) --kept;
    if (kept == order.size()) continue;
    dropped = true;
    std::vector<QuickTree> few;
    for (std::size_t k = 0; k < kept; ++k) few.push_back(std::move(trees[i][order[k]]));
    trees[i] = std::move(few);
  }
  return dropped;
}

}  // namespace

ExactSolution solution_of(const Instance& instance, const Filled& filled,
                          const std::vector<std::vector<QuickTree>>& trees) {
  ExactSolution solution;
  for (const double rate : filled.group_rate) solution.lp_rate.push_back(rate * kWithin);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    std::vector<double>& shares = solution.lp_share.emplace_back();
    for (const double share : filled.share_rate[c]) shares.push_back(share * kWithin);
  }
  solution.carried = Carried{std::vector<std::vector<Carried::Tree>>(trees.size())};
  for (std::size_t i = 0; i < trees.size(); ++i) {
    for (std::size_t t = 0; t < trees[i].size(); ++t) {
      if (filled.tree_rate[i][t] <= 0.0) continue;
      solution.carried->trees[i].push_back({trees[i][t].links, filled.tree_rate[i][t] * kWithin});
    }
  }
  return solution;
}

std::size_t most_trees(const Instance& instance, const std::vector<std::vector<QuickTree>>& trees) {
  std::size_t once = 1;
  for (const auto& of_demand : trees) {
    if (!of_demand.empty()) once += of_demand.front().links.size();
  }
  const std::size_t demands = std::max<std::size_t>(trees.size(), 1);
  const std::size_t by_count =
      std::min(std::max<std::size_t>(kTreesOfAll / demands, 2), kMaxAllTrees / demands);
  const std::size_t each = std::min(kMaxTreeLinks / once, by_count);
  const std::size_t most = std::clamp<std::size_t>(each, 1, kMaxTrees);
  const std::size_t asked = instance.problem->scenario->policy.max_streams;
  return asked > 0 ? std::min(asked, most) : most;
}

Result<Plan> quick_plan(const Problem& problem) {
  const Phase phase("making a quick plan");
  if (problem.scenario->policy.objective == Objective::kCost) {
    return failed_precondition(
        "there is no quick plan for required rates at the least cost; wait for the plan itself");
  }
  SQUARE_ASSIGN_OR_RETURN(const Instance instance, make_instance(problem));
  std::vector<std::vector<QuickTree>> trees = quick_trees(instance);
  Filled filled = fill(instance, trees);
  if (keep_widest(most_trees(instance, trees), filled, trees)) filled = fill(instance, trees);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    if (instance.groups[c].alternatives.empty() || filled.group_rate[c] > 0.0) continue;
    return failed_precondition(fmt::format("{}: a quick plan would give it nothing; wait for the plan itself",
                                           describe(problem.scenario->collectives[c])));
  }
  Plan plan = write_plan(problem, instance, solution_of(instance, filled, trees));
  plan.provisional = true;
  return plan;
}

}  // namespace square::planning
