// Who sends how much over which trees, evened out by the lengths of what is full.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/instance.h"
#include "planning/exact/resources.h"
#include "planning/exact/tree_pricer.h"

namespace square::planning {

// One way for all that a group sends: a tree for each demand of one of its alternatives.
struct GroupWay {
  std::size_t alternative = 0;
  std::vector<std::vector<int>> trees;  // by demand of the alternative: links, seen from the root
  std::vector<Use> uses;                // of a bit per second of the group's rate
  double rate = 0.0;                    // bits per second of the group's
};

// Each group has a rate, whole, over ways of its own. A resource that is used to the part r of its limit is
// exp(steepness r) / limit long; settle() moves rates to shorter ways and looks for new ones, which makes the
// sum of exp(steepness r) smaller, until the fullest resource is about as little full as it can be:
// fractional packing by exponential potentials (Plotkin, Shmoys and Tardos 1995; Goldberg, Oldham, Plotkin
// and Stein 1998). Thread-compatible. The instance must outlive it.
class Mixture {
 public:
  explicit Mixture(const Instance& instance);

  // Bits per second by group; ways keep their parts. Groups with 0 send nothing.
  void set_rates(const std::vector<double>& rates);
  [[nodiscard]] const std::vector<double>& rates() const { return rates_; }

  // Looks for a way that is short now for each group that sends and pays for its ways, and moves what pays
  // to it; the shortest that can be found, if that is to be `thorough`. False where a group has none.
  bool find_ways(bool thorough = false);
  // Between the ways that there are, so many times over all groups.
  void even_out(int times);

  // How steep the lengths are: the fullest resource ends within about ln(resources) / steepness of the least.
  void set_steepness(double steepness);
  [[nodiscard]] double steepness() const { return steepness_; }

  // The part of its limit to which the fullest resource is used.
  [[nodiscard]] double fullest() const;
  // By group, the shortest of its ways, per bit per second.
  [[nodiscard]] std::vector<double> shortest() const;
  // What fullest() is at least over the ways that are known, by the lengths of the moment.
  [[nodiscard]] double least_fullest() const;
  // The lengths of the moment, 1 / limit where it is fullest; those that hardly count are 0.
  [[nodiscard]] std::vector<double> lengths() const;

  // Forgets ways with less than this part of what the group's alternatives have on average, and of each
  // alternative all but the `most` widest; the others take over what they had.
  void drop_thin(double part, std::size_t most);

  [[nodiscard]] const std::vector<std::vector<GroupWay>>& ways() const { return ways_; }
  [[nodiscard]] const Resources& resources() const { return resources_; }
  // By demand, what any way to send it costs at least, with its proof.
  CutPacking bound(std::size_t demand, const std::vector<double>& link_cost) {
    return pricers_[demand].bound(link_cost);
  }

 private:
  std::optional<GroupWay> shortest_way(const Group& group, bool thorough);
  void take_in(std::size_t group, GroupWay way);
  void move(GroupWay& from, GroupWay& to);
  void change(const Use& use, double bps);
  void measure();
  // By group: whether it is worth looking at under the lengths of the moment.
  [[nodiscard]] std::vector<bool> who_pays() const;
  [[nodiscard]] double length_of(std::size_t resource) const;
  [[nodiscard]] double cost(const GroupWay& way) const;

  const Instance& instance_;
  const Resources resources_;
  std::vector<TreePricer> pricers_;          // by demand
  std::vector<std::vector<GroupWay>> ways_;  // by group
  std::vector<double> rates_;                // by group
  double steepness_ = 4.0;
  double height_ = 0.0;         // where lengths are 1 / limit
  std::vector<double> used_;    // by resource
  std::vector<double> length_;  // by resource
  std::vector<double> apart_;   // by resource: of two ways, what one takes more; 0 between calls
};

}  // namespace square::planning
