#include "planning/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "base/plan/figures.h"

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

namespace {

std::vector<std::size_t> number_jobs(const Scenario& scenario) {
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> known;
  std::vector<std::size_t> job_of;
  std::size_t count = 0;
  for (const CollectiveSpec& collective : scenario.collectives) {
    std::size_t job = count;
    if (!collective.group.empty())
      job = known.try_emplace({collective.tenant, collective.group}, count).first->second;
    if (job == count) ++count;
    job_of.push_back(job);
  }
  return job_of;
}

}  // namespace

// A job weighs what the heaviest of its collectives does.
std::vector<double> collective_weights(const Scenario& scenario) {
  std::map<std::string_view, double> tenant_weight;
  for (const TenantSpec& tenant : scenario.tenants) tenant_weight[tenant.name] = tenant.weight;
  const std::vector<std::size_t> job_of = number_jobs(scenario);
  std::vector<double> job_weight(job_of.size(), 0.0);
  std::map<std::string_view, double> of_tenant;               // all its jobs
  std::map<std::pair<std::size_t, JobTurn>, double> of_turn;  // all that run at once
  for (std::size_t c = 0; c < job_of.size(); ++c) {
    const CollectiveSpec& collective = scenario.collectives[c];
    const double more = std::max(collective.weight - job_weight[job_of[c]], 0.0);
    job_weight[job_of[c]] += more;
    of_tenant[collective.tenant] += more;
    of_turn[{job_of[c], job_turn_of(collective.op, collective.id)}] += collective.weight;
  }
  std::vector<double> weights;
  for (std::size_t c = 0; c < job_of.size(); ++c) {
    const CollectiveSpec& collective = scenario.collectives[c];
    double weight = tenant_weight[collective.tenant] * collective.weight;
    if (scenario.policy.fairness == Fairness::kTenant) {
      weight *= job_weight[job_of[c]] / of_tenant[collective.tenant] /
                of_turn[{job_of[c], job_turn_of(collective.op, collective.id)}];
    }
    weights.push_back(weight);
  }
  return weights;
}

void index_sessions(const Scenario& scenario, Problem& problem) {
  problem.scenario = &scenario;
  problem.weight = collective_weights(scenario);
  problem.job_of = number_jobs(scenario);
  problem.sessions_of.resize(scenario.collectives.size());
  for (std::size_t i = 0; i < problem.sessions.size(); ++i) {
    problem.sessions_of[problem.sessions[i].collective].push_back(i);
  }
  std::map<std::pair<std::size_t, JobTurn>, std::size_t> known;
  for (std::size_t c = 0; c < problem.job_of.size(); ++c) {
    const CollectiveSpec& collective = scenario.collectives[c];
    const std::size_t j = problem.job_of[c];
    problem.jobs.resize(std::max(problem.jobs.size(), j + 1));
    if (problem.sessions_of[c].empty()) continue;
    auto& turns = problem.jobs[j].turns;
    const auto [turn, is_new] =
        known.try_emplace({j, job_turn_of(collective.op, collective.id)}, turns.size());
    if (is_new) turns.emplace_back();
    turns[turn->second].push_back(c);
  }
}

}  // namespace square::planning
