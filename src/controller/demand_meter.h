// How much collectives are used, and what weight that gives them.
#pragma once

#include <chrono>
#include <functional>
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
// Use that changes brings a new plan at most so often.
inline constexpr Duration kDemandInterval = std::chrono::seconds(1);
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
// how much each is used is no matter.
//
// Nobody is believed alone: a collective is used as much as each of its members' nodes says at least. Who
// says that it is used more, or has no part in it, moves nothing. Not thread-safe.
class DemandMeter {
 public:
  using TimePoint = square::TimePoint;

  // Bytes that members on the node gave to operations of the collective. `members` says on which nodes it has
  // members, and is asked where that is not known. Returns whether the node is one of them; else nothing
  // counts.
  bool note(CollectiveId collective, NodeId node, double bytes, TimePoint now,
            const std::function<std::vector<NodeId>()>& members);

  // Whether the weights are to be looked at again, which is so once in kDemandInterval.
  bool is_due(TimePoint now);

  // The weights to plan with: 1 for what each turn of the tenant's most used group uses most. Collectives
  // that are not listed are forgotten.
  const DemandWeights& update(const std::vector<TenantUses>& tenants, TimePoint now);

 private:
  // What one member's node says.
  struct Part {
    double bytes = 0;  // as of `last`
    TimePoint last = TimePoint::min();
  };
  struct Use {
    std::map<NodeId, Part> parts;  // of all members; empty: not known yet
    TimePoint since;               // known
    int steps = 0;                 // its weight, as a power of kDemandStep
  };
  // Of a collective or a group, right now.
  struct Level {
    double bytes = 0;
    TimePoint since;
    TimePoint last;  // used
    int* steps = nullptr;
  };

  static double bytes_at(const Part& part, TimePoint now);
  static Level level_of(Use& use, TimePoint now);
  static int steps_of(const Level& level, double most, TimePoint now);
  // How far each is below the most used.
  static void weigh(const std::vector<Level>& alike, TimePoint now);
  // Carries over what is known of a turn's collectives, and adds it up for their group.
  void add_turn(const std::vector<CollectiveId>& turn, std::map<CollectiveId, Use>& present, Level& group,
                TimePoint now);

  std::map<CollectiveId, Use> uses_;
  std::map<CollectiveId, int> groups_;  // their steps, by the first of their collectives
  DemandWeights weights_;
  TimePoint next_;
};

}  // namespace square::controller
