// How much collectives are used, and what weight that gives them.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "square/clock.h"
#include "square/ids.h"

namespace square::controller {

// Bytes that were sent so long ago count half.
inline constexpr Duration kDemandHalfLife = std::chrono::seconds(4);
// A new collective counts as much used for so long.
inline constexpr Duration kDemandGrace = std::chrono::seconds(2);
// One that nobody used for so long counts as not used at all.
inline constexpr Duration kDemandIdle = std::chrono::seconds(30);
// Weights are powers of this, down to kLeastDemandWeight, so that small swings bring no new
// plan: a weight stays while the use is no farther from it than so many steps.
inline constexpr double kDemandStep = 4;
inline constexpr double kDemandRange = 0.75;
inline constexpr int kDemandSteps = 4;
inline constexpr double kLeastDemandWeight = 1.0 / 256;  // kDemandStep to the minus kDemandSteps

using DemandWeights = std::map<CollectiveId, double>;

// A plan gives every collective its share as if all ran all the time. They do not: a job calls
// one again and again and others once. So the collectives of a tenant share its part of the
// network by what they carried lately; what is hardly used keeps next to nothing guaranteed,
// which is enough for the pacer to lend it what is idle. Not thread-safe.
class DemandMeter {
 public:
  using TimePoint = square::TimePoint;

  // Bytes of one member's part in operations of the collective.
  void note(CollectiveId collective, double bytes, TimePoint now);

  // The weights to plan with: 1 for the tenant's most used collective. `tenants` lists the
  // collectives of each; others are forgotten.
  const DemandWeights& update(const std::vector<std::vector<CollectiveId>>& tenants, TimePoint now);

 private:
  struct Use {
    double bytes = 0;  // as of `updated`
    TimePoint updated;
    TimePoint since;  // known
    TimePoint last;   // used
    int steps = 0;    // its weight, as a power of kDemandStep
  };

  static double bytes_at(const Use& use, TimePoint now);
  static int steps_of(const Use& use, double most, TimePoint now);

  std::map<CollectiveId, Use> uses_;
  DemandWeights weights_;
};

}  // namespace square::controller
