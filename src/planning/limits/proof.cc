#include "planning/limits/proof.h"

#include <algorithm>
#include <tuple>

namespace square::planning {
namespace {

using LimitKind = LimitedResource::Kind;

std::vector<LimitedResource> resources_of(const PlanReading& reading, const Lengths& lengths) {
  std::vector<LimitedResource> resources;
  for (std::size_t e = 0; e < lengths.link.size(); ++e) {
    if (lengths.link[e] > 0.0) {
      resources.push_back(reading.link(LinkId(static_cast<std::uint32_t>(e)), lengths.link[e]));
    }
  }
  for (const LimitKind kind : {LimitKind::kEgress, LimitKind::kIngress}) {
    const std::vector<double>& of_kind = kind == LimitKind::kEgress ? lengths.egress : lengths.ingress;
    for (std::size_t v = 0; v < of_kind.size(); ++v) {
      if (of_kind[v] > 0.0) {
        resources.push_back(reading.node_limit(kind, NodeId(static_cast<std::uint32_t>(v)), of_kind[v]));
      }
    }
  }
  // A node before the links that leave it.
  const auto key = [&](const LimitedResource& resource) {
    const double product = resource.capacity_bps * resource.length;
    if (resource.kind != LimitKind::kLink) {
      return std::tuple(-product, reading.name_rank(resource.node), std::size_t{0});
    }
    const PlanLink& link = reading.plan().links[resource.link.index()];
    return std::tuple(-product, reading.name_rank(link.from), reading.name_rank(link.to) + 1);
  };
  std::stable_sort(resources.begin(), resources.end(),
                   [&](const LimitedResource& a, const LimitedResource& b) { return key(a) < key(b); });
  return resources;
}

}  // namespace

LimitProof proof_of(const PlanReading& reading, std::size_t level, const Lengths& lengths,
                    const std::vector<double>& part_lengths) {
  LimitProof proof;
  proof.resources = resources_of(reading, lengths);
  for (const LimitedResource& resource : proof.resources) {
    proof.worth += resource.capacity_bps * resource.length;
  }
  proof.budget_length = lengths.budget;
  proof.budget_usd_per_hour = reading.plan().budget_usd_per_hour.value_or(0.0);
  if (proof.budget_length > 0.0) proof.worth += proof.budget_length * proof.budget_usd_per_hour;
  const std::vector<PlanCollective>& collectives = reading.plan().collectives;
  for (std::size_t c = 0; c < collectives.size(); ++c) {
    if (!(part_lengths[c] > 0.0)) continue;
    const bool is_earlier = reading.level_of(c).value_or(level) < level;
    proof.parts.push_back({collectives[c].id, part_lengths[c], collectives[c].weight,
                           collectives[c].lp_rate_bps, reading.kept_bps(c), is_earlier});
    if (is_earlier) {
      proof.earlier += part_lengths[c] * collectives[c].lp_rate_bps;
    } else {
      proof.active += part_lengths[c] * collectives[c].weight;
    }
  }
  if (proof.active > 0.0) proof.bound_bps = std::max(proof.worth - proof.earlier, 0.0) / proof.active;
  return proof;
}

double bound_by(const LimitProof& proof, CollectiveId collective) {
  double own = 0.0;
  double others = 0.0;
  for (const LimitProof::Part& part : proof.parts) {
    if (part.collective == collective) {
      own += part.length;
    } else {
      others += part.length * part.rate_bps;
    }
  }
  return own > 0.0 ? std::max(proof.worth - others, 0.0) / own : kUnlimited;
}

}  // namespace square::planning
