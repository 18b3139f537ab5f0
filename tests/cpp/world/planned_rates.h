// What the active plans gave to collectives.
#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "square/clock.h"
#include "square/plan.h"
#include "square/units.h"

namespace square::test {

class PlannedRates {
 public:
  // It is active from now on.
  void note(const Plan& plan, TimePoint now) {
    std::map<CollectiveId, double> rates;
    for (const PlanCollective& collective : plan.collectives) rates[collective.id] = collective.rate_bps;
    if (plans_.empty() || plans_.back().second != rates) plans_.emplace_back(now, std::move(rates));
  }
  // The bits per second that the collective had at least, from one time to another.
  [[nodiscard]] double least(CollectiveId collective, TimePoint begin, TimePoint end) const {
    double least = kUnlimited;
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      const bool is_over = i + 1 < plans_.size() && plans_[i + 1].first < begin;
      const auto found = plans_[i].second.find(collective);
      if (!is_over && plans_[i].first <= end && found != plans_[i].second.end())
        least = std::min(least, found->second);
    }
    return least;
  }

 private:
  std::vector<std::pair<TimePoint, std::map<CollectiveId, double>>> plans_;
};

}  // namespace square::test
