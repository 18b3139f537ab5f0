#include "controller/demand_meter.h"

#include <algorithm>
#include <cmath>

namespace square::controller {

double DemandMeter::bytes_at(const Use& use, TimePoint now) {
  return use.bytes * std::exp2(-to_seconds(now - use.updated) / to_seconds(kDemandHalfLife));
}

void DemandMeter::note(CollectiveId collective, double bytes, TimePoint now) {
  Use& use = uses_.try_emplace(collective, Use{0, now, now, now, 0}).first->second;
  use.bytes = bytes_at(use, now) + bytes;
  use.updated = use.last = now;
}

int DemandMeter::steps_of(const Use& use, double most, TimePoint now) {
  if (now - use.since < kDemandGrace) return 0;
  if (now - use.last > kDemandIdle) return kDemandSteps;
  const double bytes = bytes_at(use, now);
  if (!(most > 0)) return use.steps;
  if (!(bytes > 0)) return kDemandSteps;
  const double steps = std::log(most / bytes) / std::log(kDemandStep);
  if (std::abs(steps - use.steps) < kDemandRange) return use.steps;
  return static_cast<int>(std::clamp(std::round(steps), 0.0, static_cast<double>(kDemandSteps)));
}

void DemandMeter::weigh(const std::vector<Use*>& alike, TimePoint now) {
  double most = 0;
  for (const Use* const use : alike) most = std::max(most, bytes_at(*use, now));
  for (Use* const use : alike) use->steps = steps_of(*use, most, now);
}

void DemandMeter::add_turn(const std::vector<CollectiveId>& turn, std::map<CollectiveId, Use>& present,
                           Use& group, TimePoint now) const {
  std::vector<Use*> alike;
  for (const CollectiveId id : turn) {
    const auto known = uses_.find(id);
    Use& use = present[id] = known == uses_.end() ? Use{0, now, now, now, 0} : known->second;
    alike.push_back(&use);
    group.bytes += bytes_at(use, now);
    group.since = std::min(group.since, use.since);
    group.last = std::max(group.last, use.last);
  }
  if (alike.size() > 1) weigh(alike, now);
}

const DemandWeights& DemandMeter::update(const std::vector<TenantUses>& tenants, TimePoint now) {
  std::map<CollectiveId, Use> present;
  std::map<CollectiveId, Use> groups;
  weights_.clear();
  for (const TenantUses& tenant : tenants) {
    std::vector<Use*> alike;
    for (const auto& turns : tenant) {
      if (turns.empty()) continue;
      Use group{0, now, now, TimePoint::min(), 0};
      for (const std::vector<CollectiveId>& turn : turns) add_turn(turn, present, group, now);
      const CollectiveId first = turns.front().front();
      if (const auto known = groups_.find(first); known != groups_.end()) group.steps = known->second.steps;
      alike.push_back(&groups.emplace(first, group).first->second);
    }
    weigh(alike, now);
    for (const auto& turns : tenant) {
      for (const std::vector<CollectiveId>& turn : turns) {
        for (const CollectiveId id : turn) {
          const int steps = groups.at(turns.front().front()).steps + present.at(id).steps;
          if (steps > 0) weights_[id] = std::pow(kDemandStep, -std::min(steps, kDemandSteps));
        }
      }
    }
  }
  uses_ = std::move(present);
  groups_ = std::move(groups);
  return weights_;
}

}  // namespace square::controller
