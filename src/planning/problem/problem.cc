#include "planning/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace square::planning {

Network planning_network(const Topology& topology, double headroom) {
  Network network;
  double lowest = kUnlimited;
  for (std::size_t e = 0; e < topology.link_count(); ++e) {
    const LinkProperties& link = topology.link(LinkId(static_cast<std::uint32_t>(e))).properties;
    const double capacity = std::max(link.capacity_bps - headroom * link.capacity_stddev_bps, 0.0);
    network.capacity_bps.push_back(capacity);
    if (capacity > 0.0) lowest = std::min(lowest, capacity);
  }
  if (!std::isfinite(lowest)) lowest = kAssumedCapacityBps;
  for (double& capacity : network.capacity_bps) {
    if (!std::isfinite(capacity)) capacity = lowest;
  }
  for (std::size_t v = 0; v < topology.node_count(); ++v) {
    const TopologyNode& node = topology.node(NodeId(static_cast<std::uint32_t>(v)));
    network.egress_bps.push_back(node.egress_bps);
    network.ingress_bps.push_back(node.ingress_bps);
  }
  return network;
}

Result<Network> with_headroom(const Scenario& scenario) {
  Network network = planning_network(scenario.topology, scenario.policy.headroom);
  if (scenario.policy.headroom <= 0.0) return network;
  for (std::size_t e = 0; e < network.capacity_bps.size(); ++e) {
    const TopologyLink& link = scenario.topology.link(LinkId(static_cast<std::uint32_t>(e)));
    const auto& avoided = scenario.policy.avoid_links;
    const bool is_used =
        std::find(avoided.begin(), avoided.end(), LinkId(static_cast<std::uint32_t>(e))) == avoided.end();
    if (network.capacity_bps[e] > 0.0 || !is_used) continue;
    return invalid_argument(
        fmt::format("policy: headroom of {:g} standard deviations leaves nothing of the link from {} to {}; "
                    "ask for less, "
                    "or avoid the link",
                    scenario.policy.headroom, scenario.topology.node(link.from).name,
                    scenario.topology.node(link.to).name));
  }
  return network;
}

std::vector<double> collective_weights(const Scenario& scenario) {
  std::map<std::string_view, double> tenant_weight;
  for (const TenantSpec& tenant : scenario.tenants) tenant_weight[tenant.name] = tenant.weight;
  std::map<std::string_view, double> sum;
  for (const CollectiveSpec& collective : scenario.collectives) sum[collective.tenant] += collective.weight;

  std::vector<double> weights;
  for (const CollectiveSpec& collective : scenario.collectives) {
    double weight = tenant_weight[collective.tenant] * collective.weight;
    if (scenario.policy.fairness == Fairness::kTenant) weight /= sum[collective.tenant];
    weights.push_back(weight);
  }
  return weights;
}

void index_sessions(const Scenario& scenario, Problem& problem) {
  problem.scenario = &scenario;
  problem.weight = collective_weights(scenario);
  problem.sessions_of.resize(scenario.collectives.size());
  for (std::size_t i = 0; i < problem.sessions.size(); ++i) {
    problem.sessions_of[problem.sessions[i].collective].push_back(i);
  }
}

}  // namespace square::planning
