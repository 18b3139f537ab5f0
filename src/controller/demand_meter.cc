#include "controller/demand_meter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace square::controller {

double DemandMeter::bytes_at(const Part& part, TimePoint now) {
  return part.bytes > 0 ? part.bytes * std::exp2(-to_seconds(now - part.last) / to_seconds(kDemandHalfLife))
                        : 0;
}

bool DemandMeter::note(CollectiveId collective, NodeId node, double bytes, TimePoint now,
                       const std::function<std::vector<NodeId>()>& members) {
  Use& use = uses_.try_emplace(collective, Use{{}, now, 0}).first->second;
  if (use.parts.empty()) {
    for (const NodeId member : members()) use.parts.try_emplace(member);
  }
  const auto found = use.parts.find(node);
  if (found == use.parts.end()) return false;
  Part& part = found->second;
  part = {bytes_at(part, now) + bytes, now};
  return true;
}

bool DemandMeter::is_due(TimePoint now) {
  if (now < next_) return false;
  next_ = now + kDemandInterval;
  return true;
}

DemandMeter::Level DemandMeter::level_of(Use& use, TimePoint now) {
  Level level{0, use.since, use.since, &use.steps};
  if (use.parts.empty()) return level;
  level.bytes = std::numeric_limits<double>::infinity();
  TimePoint last = now;
  for (const auto& [node, part] : use.parts) {
    level.bytes = std::min(level.bytes, bytes_at(part, now));
    last = std::min(last, part.last);
  }
  level.last = std::max(level.last, last);
  return level;
}

int DemandMeter::steps_of(const Level& level, double most, TimePoint now) {
  if (now - level.since < kDemandGrace) return 0;
  if (now - level.last > kDemandIdle) return kDemandSteps;
  if (!(most > 0)) return *level.steps;
  if (!(level.bytes > 0)) return kDemandSteps;
  const double steps = std::log(most / level.bytes) / std::log(kDemandStep);
  if (std::abs(steps - *level.steps) < kDemandRange) return *level.steps;
  return static_cast<int>(std::clamp(std::round(steps), 0.0, static_cast<double>(kDemandSteps)));
}

void DemandMeter::weigh(const std::vector<Level>& alike, TimePoint now) {
  double most = 0;
  for (const Level& level : alike) most = std::max(most, level.bytes);
  for (const Level& level : alike) *level.steps = steps_of(level, most, now);
}

void DemandMeter::add_turn(const std::vector<CollectiveId>& turn, std::map<CollectiveId, Use>& present,
                           Level& group, TimePoint now) {
  std::vector<Level> alike;
  for (const CollectiveId id : turn) {
    const auto known = uses_.find(id);
    Use& use = present[id] = known == uses_.end() ? Use{{}, now, 0} : std::move(known->second);
    const Level level = alike.emplace_back(level_of(use, now));
    group.bytes += level.bytes;
    group.since = std::min(group.since, level.since);
    group.last = std::max(group.last, level.last);
  }
  if (alike.size() > 1) weigh(alike, now);
}

const DemandWeights& DemandMeter::update(const std::vector<TenantUses>& tenants, TimePoint now) {
  std::map<CollectiveId, Use> present;
  std::map<CollectiveId, int> groups;
  weights_.clear();
  for (const TenantUses& tenant : tenants) {
    std::vector<Level> alike;
    for (const auto& turns : tenant) {
      if (turns.empty()) continue;
      const CollectiveId first = turns.front().front();
      const auto known = groups_.find(first);
      int& steps = groups[first] = known == groups_.end() ? 0 : known->second;
      Level group{0, now, TimePoint::min(), &steps};
      for (const std::vector<CollectiveId>& turn : turns) add_turn(turn, present, group, now);
      alike.push_back(group);
    }
    weigh(alike, now);
    for (const auto& turns : tenant) {
      for (const std::vector<CollectiveId>& turn : turns) {
        for (const CollectiveId id : turn) {
          const int steps = groups.at(turns.front().front()) + present.at(id).steps;
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
