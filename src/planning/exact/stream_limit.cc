#include "planning/exact/stream_limit.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "planning/exact/few_streams.h"

namespace square::planning {
namespace {

bool has_any(const Group& group, const std::vector<double>& demand_rate) {
  return std::ranges::any_of(group.alternatives, [&](const Alternative& alternative) {
    return std::ranges::any_of(alternative.demands, [&](std::size_t i) { return demand_rate[i] > 0.0; });
  });
}

// What the alternatives of a group carry together.
double rate_of(const Group& group, const std::vector<double>& demand_rate) {
  double whole = 0.0;
  for (const Alternative& alternative : group.alternatives) {
    double least = kUnreachable;
    for (std::size_t k = 0; k < alternative.demands.size(); ++k)
      least = std::min(least, demand_rate[alternative.demands[k]] / alternative.fractions[k]);
    whole += least;
  }
  return whole;
}

}  // namespace

void show_flows(const Instance& instance, ExactSolution& solution) {
  std::vector<double> shown(instance.demands.size(), 0.0);
  for (const auto& [column, bps] : solution.flows) shown[column.demand] += bps;
  const std::vector<std::vector<double>> shares = shares_of(instance, *solution.carried);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    const Group& group = instance.groups[c];
    if (has_any(group, shown)) continue;
    for (const Alternative& alternative : group.alternatives) {
      for (const std::size_t i : alternative.demands) {
        for (const Carried::Tree& tree : solution.carried->trees[i]) {
          solution.flows.emplace_back(Column{i, tree.links, tree.usage, {}, tree.code}, tree.rate);
          shown[i] += tree.rate;
        }
      }
    }
    solution.lp_share[c] = shares[c];
    if (!group.alternatives.empty())
      solution.lp_rate[c] = std::min(solution.lp_rate[c], rate_of(group, shown));
  }
}

void claim_what_is_carried(const Instance& instance, ExactSolution& solution) {
  solution.flows.clear();
  solution.lp_share = shares_of(instance, *solution.carried);
  std::vector<double> carried;
  for (std::size_t i = 0; i < instance.demands.size(); ++i) carried.push_back(rate_of(*solution.carried, i));
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    const Group& group = instance.groups[c];
    solution.lp_rate[c] = group.alternatives.empty() ? 0.0 : rate_of(group, carried);
  }
}

Status limit_streams(const Instance& instance, ExactSolution& solution) {
  const std::size_t most = instance.problem->scenario->policy.max_streams;
  if (most == 0 || !solution.carried.has_value()) return Status::ok();
  show_flows(instance, solution);
  SQUARE_ASSIGN_OR_RETURN(solution.carried, carry_by_few(instance, *solution.carried, most));
  return Status::ok();
}

}  // namespace square::planning
