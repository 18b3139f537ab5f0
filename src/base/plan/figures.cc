#include "base/plan/figures.h"

#include <algorithm>
#include <cmath>

namespace square {
namespace {

// A link that the plan leaves empty still carries this part of its capacity.
constexpr double kMinPacePart = 0.01;
constexpr double kAssumedCapacityBps = 1e9;  // of an unlimited link
// What goes back for what a link carries: receipts, acknowledgements and credit, where blocks are smallest.
constexpr double kWayBack = 0.05;

// What comes into one node.
struct Entering {
  std::map<std::string_view, std::size_t> streams;  // by tenant
  double weight = 0;                                // of these tenants
};

std::vector<Entering> count_streams(const Plan& plan, const TenantWeights& weights) {
  std::vector<Entering> counts(plan.nodes.size());
  for (const PlanSession& session : plan.sessions) {
    const std::string_view tenant = tenant_of(plan, session);
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) ++counts[to.index()].streams[tenant];
    }
  }
  for (Entering& entering : counts) {
    for (const auto& [tenant, streams] : entering.streams) entering.weight += weights.of(tenant);
  }
  return counts;
}

// What the links that share a node's limit may carry: each its planned load and an even part of what the plan
// leaves free, so that none lends away what another was promised.
struct LinkShare {
  double load_bps = 0;
  double links = 0;

  void add(const PlanLink& link) {
    load_bps += link.load_bps;
    ++links;
  }
  [[nodiscard]] double of(const PlanLink& link, double limit_bps) const {
    if (limit_bps == kUnlimited) return kUnlimited;
    return link.load_bps + std::max(0.0, limit_bps - load_bps) / links;
  }
};

}  // namespace

std::string_view tenant_of(const Plan& plan, const PlanSession& session) {
  const PlanCollective* collective = plan.find_collective(session.collective);
  return collective == nullptr ? std::string_view() : std::string_view(collective->tenant);
}

TenantWeights::TenantWeights(const Plan& plan) {
  for (const PlanTenant& tenant : plan.tenants) weights_.emplace(tenant.name, tenant.weight);
}

double TenantWeights::of(std::string_view tenant) const {
  const auto found = weights_.find(tenant);
  return found == weights_.end() || !(found->second > 0) ? 1.0 : found->second;
}

std::vector<double> block_limits(const Plan& plan) {
  const TenantWeights weights(plan);
  const std::vector<Entering> counts = count_streams(plan, weights);
  std::vector<double> limits;
  limits.reserve(plan.sessions.size());
  for (const PlanSession& session : plan.sessions) {
    const std::string_view tenant = tenant_of(plan, session);
    const double window = static_cast<double>(kPlanWindowBytes) * weights.of(tenant);
    double smallest = static_cast<double>(kMaxBlockBytes);
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) {
        const Entering& entering = counts[to.index()];
        const auto blocks = static_cast<double>(kMinWindowBlocks * entering.streams.at(tenant));
        smallest = std::min(smallest, window / entering.weight / blocks);
      }
    }
    const double largest = std::exp2(std::floor(std::log2(smallest)));
    limits.push_back(std::max(largest, static_cast<double>(kMinBlockBytes)));
  }
  return limits;
}

std::vector<double> link_paces(const Plan& plan) {
  std::vector<LinkShare> leaving(plan.nodes.size());
  std::vector<LinkShare> entering(plan.nodes.size());
  std::map<std::pair<NodeId, NodeId>, double> loads;
  for (const PlanLink& link : plan.links) {
    leaving[link.from.index()].add(link);
    entering[link.to.index()].add(link);
    if (link.load_bps > 0) loads[{link.from, link.to}] += link.load_bps;
  }
  std::vector<double> paces;
  paces.reserve(plan.links.size());
  for (const PlanLink& link : plan.links) {
    const double egress = leaving[link.from.index()].of(link, plan.nodes[link.from.index()].egress_bps);
    const double ingress = entering[link.to.index()].of(link, plan.nodes[link.to.index()].ingress_bps);
    const auto opposite = loads.find({link.to, link.from});
    double answers = opposite == loads.end() ? 0 : kWayBack * opposite->second;
    // All answers into a node are no more than that part of what it may receive.
    const std::size_t to = link.to.index();
    if (answers > 0) answers *= std::min(1.0, plan.nodes[to].ingress_bps / leaving[to].load_bps);
    const double pace =
        std::min(std::max(link.capacity_bps, link.most_bps), std::min(egress, ingress) + answers);
    paces.push_back(std::max(pace, kMinPacePart * std::min(link.capacity_bps, kAssumedCapacityBps)));
  }
  return paces;
}

LinkLatencies::LinkLatencies(const Plan& plan) {
  for (const PlanLink& link : plan.links) {
    if (link.latency <= Duration{0}) continue;
    Duration& latency = latencies_[{link.from, link.to}];
    latency = std::max(latency, link.latency);
  }
}

Duration LinkLatencies::longest(const PlanStream& stream) const {
  Duration longest{0};
  if (latencies_.empty()) return longest;
  for (const auto& link : stream.links) {
    const auto found = latencies_.find(link);
    if (found != latencies_.end()) longest = std::max(longest, found->second);
  }
  return longest;
}

}  // namespace square
