#include "planning/plan/assumption.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace square::planning {
namespace {

bool is_assumed(const PlanLink& link) { return std::isinf(link.capacity_bps) && !link.avoided; }

bool uses_assumed(const Plan& plan, const PlanLevel& level) {
  return std::ranges::any_of(level.links, [&](const auto& part) {
    return part.second > 0.0 && is_assumed(plan.links.at(part.first.index()));
  });
}

bool crosses_assumed(const Plan& plan, const PlanCut& cut) {
  const std::set<NodeId> side(cut.source_side.begin(), cut.source_side.end());
  return std::ranges::any_of(plan.links, [&](const PlanLink& link) {
    return is_assumed(link) && side.contains(link.from) && !side.contains(link.to);
  });
}

bool is_bound_assumed(const Plan& plan, const PlanCollective& collective) {
  if (!std::isfinite(collective.bound_bps)) return false;
  bool is_proven = false;
  for (const PlanLevel& level : plan.certificate.levels) {
    if (std::ranges::find(level.collectives, collective.id) == level.collectives.end()) continue;
    if (uses_assumed(plan, level)) return true;
    is_proven = true;
  }
  for (const PlanCut& cut : plan.certificate.cuts) {
    if (cut.collective != collective.id) continue;
    if (crosses_assumed(plan, cut)) return true;
    is_proven = true;
  }
  return !is_proven;  // the plan does not say by which links
}

}  // namespace

std::optional<Assumption> assumption_of(const Plan& plan) {
  Assumption assumption{0, kUnlimited};
  for (const PlanLink& link : plan.links) {
    if (is_assumed(link)) ++assumption.links;
    if (link.capacity_bps > 0.0)
      assumption.capacity_bps = std::min(assumption.capacity_bps, link.capacity_bps);
  }
  if (assumption.links == 0) return std::nullopt;
  if (std::isinf(assumption.capacity_bps)) assumption.capacity_bps = kAssumedCapacityBps;
  return assumption;
}

std::vector<CollectiveId> assumed_bounds(const Plan& plan) {
  std::vector<CollectiveId> ids;
  if (!assumption_of(plan)) return ids;
  for (const PlanCollective& collective : plan.collectives) {
    if (is_bound_assumed(plan, collective)) ids.push_back(collective.id);
  }
  return ids;
}

}  // namespace square::planning
