// What nodes measure of their links, and what plans take from it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "square/clock.h"
#include "square/topology.h"
#include "square/units.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// A link is planned with another capacity when it is off by a larger part. What a node reports is of a second
// or more already, in which nothing but the network limited it.
inline constexpr double kCapacityChange = 0.1;
// Measurements bring a new plan at most so often.
inline constexpr Duration kMeasuredPlanInterval = std::chrono::seconds(1);
// Where more comes through it is machines that limit. The link is planned with this much beside slower ones,
// and not paced.
inline constexpr double kMostMeasuredBps = 5e9;

// Of each link so many points are kept: one where it differs from the last by kCapacityChange, or after a
// while.
inline constexpr int kHistoryPoints = 128;
inline constexpr Duration kHistoryInterval = std::chrono::hours(1);

// By the ends of links: when a topology changes, nodes keep their ids, links do not.
using LinkEnds = std::pair<NodeId, NodeId>;
using LinkCapacities = std::map<LinkEnds, double>;

// What is known of the links of a topology.
struct MeasuredCapacities {
  // What links are planned with in place of what the topology says; only what differs.
  LinkCapacities planned;
  // What was measured, as the store keeps it: a v1::Past with one link, in bytes. States that share it are
  // copied often.
  std::map<LinkEnds, std::shared_ptr<const std::string>> history;

  // Whether some link is known to be slower than machines are; else all are alike.
  [[nodiscard]] bool distinguish(const Topology& topology) const;
  // Gives the links of the topology what they are planned with.
  void apply(Topology& topology) const;
  // What an earlier controller's store has of links that the topology has.
  void take_up(const v1::Past& past, const Topology& topology);
  [[nodiscard]] v1::LinkHistory history_of(const LinkEnds& ends) const;
};

// Keeps the last word on each link. A capacity in the topology is what the operator allows: less may be
// measured, and then counts; more does not. A link without one has the capacity that was measured; one that
// was not measured is planned as the lowest, as any link without a capacity. Fixed ones stay as the topology
// has them. Not thread-safe.
class Measurements {
 public:
  struct Estimate {
    double capacity_bps = 0;  // 0: not known; kUnlimited: it stays on one machine
    bool is_probed = false;
    TimePoint when{};  // it was measured
    Duration round_trip{0};
  };

  // Of a heartbeat of the node; links that the topology does not have, and figures that cannot be, are not
  // noted. Whether something may have changed for plans.
  bool note(const std::string& node, const v1::Heartbeat& beat, const Topology& topology, TimePoint now);

  // Brings `known` up to date; whether a new plan is due. Not so soon after the last time: then next_end()
  // says when.
  bool absorb(const Topology& topology, MeasuredCapacities& known, TimePoint now);
  // The next time that absorb() is worth a call, `latest` if it is not.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;
  // What runs under plans made before is to move to the one that was made since absorb() asked for it, once.
  bool take_moves() { return std::exchange(moves_, false); }

  // The topology with all that is known of its links.
  [[nodiscard]] v1::ListLinksResponse list(const Topology& topology, const MeasuredCapacities& known,
                                           TimePoint now) const;

 private:
  std::map<LinkEnds, Estimate> estimates_;
  std::set<LinkEnds> fresh_;  // with another figure since the last absorb()
  bool moves_ = false;
  std::optional<TimePoint> absorbed_at_;
};

}  // namespace square::controller
