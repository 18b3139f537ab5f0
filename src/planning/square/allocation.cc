#include "planning/square/allocation.h"

#include <algorithm>
#include <cmath>

namespace square::planning {
namespace {

// What allocations put on links, out of nodes and into nodes.
Network loads(const Problem& problem, const std::vector<Allocation>& allocations) {
  const Topology& topology = problem.topology();
  Network load;
  load.capacity_bps.assign(topology.link_count(), 0.0);
  load.egress_bps.assign(topology.node_count(), 0.0);
  load.ingress_bps.assign(topology.node_count(), 0.0);
  for (const Allocation& allocation : allocations) {
    for (const auto& [link, rate] : allocation.link_bps) {
      load.capacity_bps[link.index()] += rate;
      load.egress_bps[topology.link(link).from.index()] += rate;
      load.ingress_bps[topology.link(link).to.index()] += rate;
    }
  }
  return load;
}

double factor(double load, double limit) { return load > limit ? std::max(limit, 0.0) / load : 1.0; }

void take(double load, double whole, double& left) {
  if (!std::isfinite(left)) return;
  left -= load;
  if (left < kNothingLeft * whole) left = 0.0;
}

}  // namespace

std::vector<Allocation> empty_allocations(const Problem& problem) {
  std::vector<Allocation> allocations(problem.sessions.size());
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    for (const auto& paths : problem.paths[i]) allocations[i].path_bps.emplace_back(paths.size(), 0.0);
  }
  return allocations;
}

std::map<LinkId, double> effective_rates(const std::vector<std::vector<Path>>& paths,
                                         const std::vector<std::vector<double>>& path_bps) {
  std::map<LinkId, double> effective;
  std::map<LinkId, double> towards;
  for (std::size_t j = 0; j < paths.size(); ++j) {
    towards.clear();
    for (std::size_t p = 0; p < paths[j].size(); ++p) {
      if (path_bps[j][p] <= 0.0) continue;
      for (const LinkId link : paths[j][p].links) towards[link] += path_bps[j][p];
    }
    for (const auto& [link, rate] : towards) {
      double& largest = effective[link];
      largest = std::max(largest, rate);
    }
  }
  return effective;
}

void clip_to_network(const Problem& problem, const Network& network, std::vector<Allocation>& allocations) {
  const Topology& topology = problem.topology();
  const Network load = loads(problem, allocations);
  const auto link_factor = [&](LinkId link) {
    const std::size_t from = topology.link(link).from.index();
    const std::size_t to = topology.link(link).to.index();
    return std::min({factor(load.capacity_bps[link.index()], network.capacity_bps[link.index()]),
                     factor(load.egress_bps[from], network.egress_bps[from]),
                     factor(load.ingress_bps[to], network.ingress_bps[to])});
  };
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    bool changed = false;
    for (std::size_t j = 0; j < problem.paths[i].size(); ++j) {
      for (std::size_t p = 0; p < problem.paths[i][j].size(); ++p) {
        double& flow = allocations[i].path_bps[j][p];
        if (flow <= 0.0) continue;
        double least = 1.0;
        for (const LinkId link : problem.paths[i][j][p].links) least = std::min(least, link_factor(link));
        changed = changed || least < 1.0;
        flow *= least;
      }
    }
    if (!changed) continue;
    allocations[i].link_bps = effective_rates(problem.paths[i], allocations[i].path_bps);
    allocations[i].rate_bps = std::min(allocations[i].rate_bps, carried_bps(allocations[i]));
  }
}

void trim(const std::vector<std::vector<Path>>& paths, double rate_bps, Allocation& allocation) {
  allocation.rate_bps = rate_bps;
  for (std::vector<double>& flows : allocation.path_bps) {
    double sum = 0.0;
    for (double& flow : flows) {
      flow = std::min(flow, rate_bps - sum);
      sum = std::min(sum + flow, rate_bps);
    }
  }
  allocation.link_bps = effective_rates(paths, allocation.path_bps);
}

double carried_bps(const Allocation& allocation) {
  double least = kUnlimited;
  for (const std::vector<double>& flows : allocation.path_bps) {
    double sum = 0.0;
    for (const double flow : flows) sum += flow;
    least = std::min(least, sum);
  }
  return least;
}

void add(const Allocation& part, Allocation& sum) {
  sum.rate_bps += part.rate_bps;
  for (std::size_t j = 0; j < part.path_bps.size(); ++j) {
    for (std::size_t p = 0; p < part.path_bps[j].size(); ++p) sum.path_bps[j][p] += part.path_bps[j][p];
  }
  for (const auto& [link, rate] : part.link_bps) sum.link_bps[link] += rate;
}

void subtract(const Problem& problem, const std::vector<Allocation>& allocations, const Network& whole,
              Network& left) {
  const Network load = loads(problem, allocations);
  for (std::size_t e = 0; e < left.capacity_bps.size(); ++e) {
    take(load.capacity_bps[e], whole.capacity_bps[e], left.capacity_bps[e]);
  }
  for (std::size_t v = 0; v < left.egress_bps.size(); ++v) {
    take(load.egress_bps[v], whole.egress_bps[v], left.egress_bps[v]);
    take(load.ingress_bps[v], whole.ingress_bps[v], left.ingress_bps[v]);
  }
}

}  // namespace square::planning
