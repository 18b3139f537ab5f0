#include "planning/exact/proof.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

using Kind = Targets::Kind;

std::vector<double> lengths_of(const std::vector<CutPacking>& packings) {
  std::vector<double> lengths;
  for (const CutPacking& packing : packings) lengths.push_back(packing.length);
  return lengths;
}

}  // namespace

double proven_bound(const Instance& instance, const Targets& targets, const Proof& proof) {
  const GroupCosts costs = group_costs(instance, targets, lengths_of(proof.packings));
  const double worth = proof.duals.worth(instance);
  if (!targets.link_cost.empty()) return costs.fixed - worth;
  return costs.active > 0.0 ? std::max(worth - costs.fixed, 0.0) / costs.active : kUnreachable;
}

Proof prove(Generation& generation, const Targets& targets, const Duals& duals,
            const std::vector<double>& demand_cost, double gap) {
  const Phase phase("proving how good the plan is");
  const Instance& instance = generation.instance();
  Proof proof{duals, std::vector<CutPacking>(instance.demands.size()), 0.0};
  std::vector<double> cost = duals.link_cost(instance);
  for (std::size_t e = 0; e < targets.link_cost.size(); ++e) cost[e] += targets.link_cost[e];
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    if (targets.kind[c] == Kind::kAbsent) continue;
    for (const Alternative& alternative : instance.groups[c].alternatives) {
      for (const std::size_t i : alternative.demands) {
        look_at_budget();
        proof.packings[i] = generation.packing(i, cost);
        if (std::isinf(gap) || demand_cost[i] <= proof.packings[i].length * (1.0 + gap)) continue;
        Result<CutPacking> exact = generation.exact_packing(i, cost);
        if (exact.is_ok() && exact->length > proof.packings[i].length) proof.packings[i] = std::move(*exact);
      }
    }
  }
  proof.bound = proven_bound(instance, targets, proof);
  return proof;
}

std::vector<Targets> level_targets(const Instance& instance, const FairRates& rates) {
  Targets targets = active_targets(instance);
  std::vector<Targets> all;
  for (const FairLevel& level : rates.levels) {
    targets.unit = level.level;
    all.push_back(targets);
    for (const std::size_t c : level.groups) {
      targets.kind[c] = Kind::kFixed;
      targets.rate[c] = rates.rate[c];
    }
  }
  return all;
}

PlanLevel plan_level(const Instance& instance, const Targets& targets, const Proof& proof,
                     const std::vector<std::size_t>& groups) {
  const GroupCosts costs = group_costs(instance, targets, lengths_of(proof.packings));
  const double scale = costs.active > 0.0 ? 1.0 / costs.active : 1.0;
  PlanLevel out;
  out.bound_bps = targets.link_cost.empty() ? proof.bound : 0.0;
  const Problem& problem = *instance.problem;
  for (const std::size_t c : groups) out.collectives.push_back(problem.scenario->collectives[c].id);
  for (std::size_t e = 0; e < proof.duals.link.size(); ++e) {
    const double length = proof.duals.link[e] * scale;
    if (length > 0.0) out.links.emplace_back(LinkId(static_cast<std::uint32_t>(e)), length);
  }
  for (std::size_t v = 0; v < proof.duals.egress.size(); ++v) {
    const NodeId node(static_cast<std::uint32_t>(v));
    if (proof.duals.egress[v] > 0.0) out.egress.emplace_back(node, proof.duals.egress[v] * scale);
    if (proof.duals.ingress[v] > 0.0) out.ingress.emplace_back(node, proof.duals.ingress[v] * scale);
  }
  out.budget = proof.duals.budget * scale;
  for (std::size_t i = 0; i < proof.packings.size(); ++i) {
    if (proof.packings[i].cuts.empty()) continue;
    PlanPacking& packing = out.packings.emplace_back(PlanPacking{problem.sessions[i].id, {}});
    for (const CutPacking::Cut& cut : proof.packings[i].cuts) {
      PlanPacking::Cut& named = packing.cuts.emplace_back(PlanPacking::Cut{{}, cut.length * scale});
      for (const int node : cut.far_side) named.far_side.emplace_back(static_cast<std::uint32_t>(node));
    }
  }
  return out;
}

}  // namespace square::planning
