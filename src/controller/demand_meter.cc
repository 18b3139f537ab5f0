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

const DemandWeights& DemandMeter::update(const std::vector<std::vector<CollectiveId>>& tenants,
                                         TimePoint now) {
  std::map<CollectiveId, Use> present;
  weights_.clear();
  for (const std::vector<CollectiveId>& collectives : tenants) {
    double most = 0;
    for (const CollectiveId id : collectives) {
      const auto known = uses_.find(id);
      const Use use = known == uses_.end() ? Use{0, now, now, now, 0} : known->second;
      most = std::max(most, bytes_at(present.emplace(id, use).first->second, now));
    }
    for (const CollectiveId id : collectives) {
      Use& use = present.at(id);
      use.steps = steps_of(use, most, now);
      if (use.steps > 0) weights_[id] = std::pow(kDemandStep, -use.steps);
    }
  }
  uses_ = std::move(present);
  return weights_;
}

}  // namespace square::controller
