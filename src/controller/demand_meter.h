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

// Of one tenant: its groups, of each the turns that follow one another, of each the collectives that run at
// once.
using TenantUses = std::vector<std::vector<std::vector<CollectiveId>>>;

// A plan gives every group its share as if all ran all the time. They do not: a job calls one again and again
// and others once. So the groups of a tenant share its part of the network by what they carried lately; what
// is hardly used keeps next to nothing guaranteed, which is enough for the pacer to lend it what is idle. So
// do the collectives of one turn of a group. Its turns follow one another, and each has all of the group's:
// how much each is used is no matter. Not thread-safe.
class DemandMeter {
 public:
  using TimePoint = square::TimePoint;

  // Bytes of one member's part in operations of the collective.
  void note(CollectiveId collective, double bytes, TimePoint now);

  // The weights to plan with: 1 for what each turn of the tenant's most used group uses most. Collectives
  // that are not listed are forgotten.
  const DemandWeights& update(const std::vector<TenantUses>& tenants, TimePoint now);

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
  // How far each is below the most used.
  static void weigh(const std::vector<Use*>& alike, TimePoint now);
  // Carries over what is known of a turn's collectives, and adds it up for their group.
  void add_turn(const std::vector<CollectiveId>& turn, std::map<CollectiveId, Use>& present, Use& group,
                TimePoint now) const;

  std::map<CollectiveId, Use> uses_;
  std::map<CollectiveId, Use> groups_;  // by the first of their collectives
  DemandWeights weights_;
};

}  // namespace square::controller
