#include "planning/problem.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace square::planning {

Network planning_network(const Topology& topology) {
  Network network;
  double largest = 0.0;
  for (std::size_t e = 0; e < topology.link_count(); ++e) {
    const double capacity = topology.link(LinkId(static_cast<std::uint32_t>(e))).properties.capacity_bps;
    network.capacity_bps.push_back(capacity);
    if (std::isfinite(capacity)) largest = std::max(largest, capacity);
  }
  if (largest == 0.0) largest = kAssumedCapacityBps;
  for (double& capacity : network.capacity_bps) {
    if (!std::isfinite(capacity)) capacity = largest;
  }
  for (std::size_t v = 0; v < topology.node_count(); ++v) {
    const TopologyNode& node = topology.node(NodeId(static_cast<std::uint32_t>(v)));
    network.egress_bps.push_back(node.egress_bps);
    network.ingress_bps.push_back(node.ingress_bps);
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

}  // namespace square::planning
