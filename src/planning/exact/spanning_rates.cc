#include "planning/exact/spanning_rates.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace square::planning {
namespace {

// A limit that all links of the node together keep anyway is none.
bool binds(const std::vector<double>& limit, const std::vector<NodeId>& node_of, const Instance& instance) {
  std::vector<double> sum(limit.size(), 0.0);
  for (std::size_t e = 0; e < node_of.size(); ++e) {
    sum[node_of[e].index()] += instance.network.capacity_bps[e];
  }
  for (std::size_t v = 0; v < limit.size(); ++v) {
    if (limit[v] < sum[v]) return true;
  }
  return false;
}

bool applies(const Instance& instance) {
  if (instance.demands.empty() || instance.budget_usd_per_hour.has_value()) return false;
  const Demand& first = instance.demands.front();
  for (const Demand& demand : instance.demands) {
    if (!demand.spanning || !demand.max_latency.empty() || demand.redundancy > 0) return false;
    if (demand.graph != first.graph) return false;
  }
  for (const Group& group : instance.groups) {
    if (group.alternatives.size() > 1) return false;
  }
  return !binds(instance.network.egress_bps, instance.tail, instance) &&
         !binds(instance.network.ingress_bps, instance.head, instance);
}

}  // namespace

Result<std::optional<SpanningAnswer>> spanning_rates(const Instance& instance) {
  if (!applies(instance)) return std::optional<SpanningAnswer>();
  const DemandGraph& graph = *instance.demands.front().graph;
  std::vector<double> capacity;
  for (const int link : graph.link)
    capacity.push_back(instance.network.capacity_bps[static_cast<std::size_t>(link)]);
  std::vector<SpanningGroup> groups;
  std::vector<int> position;  // in the instance, of those that send
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    if (instance.groups[c].alternatives.empty()) continue;
    position.push_back(static_cast<int>(c));
    SpanningGroup& out = groups.emplace_back(SpanningGroup{instance.groups[c].weight, {}});
    const Alternative& only = instance.groups[c].alternatives.front();
    for (std::size_t k = 0; k < only.demands.size(); ++k) {
      out.roots.emplace_back(instance.demands[only.demands[k]].root, only.fractions[k]);
    }
  }
  SQUARE_ASSIGN_OR_RETURN(SpanningAnswer answer, solve_spanning(graph.graph, capacity, groups));
  std::vector<double> rate(instance.groups.size(), 0.0);
  for (std::size_t k = 0; k < position.size(); ++k)
    rate[static_cast<std::size_t>(position[k])] = answer.rate[k];
  answer.rate = std::move(rate);
  for (SpanningLevel& level : answer.levels) {
    for (int& group : level.groups) group = position[static_cast<std::size_t>(group)];
  }
  return std::optional(std::move(answer));
}

}  // namespace square::planning
