#include "planning/large/large_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/large/ladder.h"
#include "planning/large/mixture.h"
#include "planning/large/water_filling.h"
#include "planning/quick/filling.h"
#include "planning/quick/quick_plan.h"

namespace square::planning {
namespace {

// From so many nodes on, with so many links of all sessions' graphs together.
constexpr std::size_t kManyNodes = 200;
constexpr std::size_t kManyArcs = 100'000;
// Without a deadline.
constexpr Duration kLongestSearch = std::chrono::seconds(120);
// Of the time, what is for first rates, and for them and their levels; the rest is for streams.
constexpr double kRatesPart = 0.15;
constexpr double kLevelsPart = 0.9;
// Levels are looked for again from the first one on that is proven to less than the policy's gap, or this,
// with so much less room and so much steeper lengths.
constexpr double kLeastGap = 0.02;
constexpr double kFiner = 0.3;
constexpr int kMostClimbs = 3;
// Rates that differ by less are about the same.
constexpr double kAboutSame = 0.01;
// Rounds of first rates, how steep lengths are after them, and passes in a round.
constexpr int kEarlyRounds = 30;
constexpr double kEarlySteepness = 4.0;
constexpr double kLateSteepness = 100.0;
constexpr double kEarlySteeper = 1.12;
constexpr int kEarlyPasses = 4;
// In the end: lengths, ways that are worth a stream, how many, and passes over those.
constexpr double kFinalSteepness = 300.0;
constexpr double kThinWay = 0.005;
constexpr std::size_t kMostStreams = 32;
constexpr std::size_t kLeastStreams = 8;
constexpr std::size_t kStreamsOfAll = 4'096;
constexpr int kStreamPasses = 100;
constexpr int kStreamRounds = 8;
constexpr int kRefillings = 12;
// Until then nobody gets more than his level by more than this part: what is left is for those below theirs.
constexpr double kOverLevel = 1.01;

class Large {
 public:
  Large(const Instance& instance, bool streams)
      : instance_(instance), streams_(streams), mixture_(instance), begun_(steady_clock().now()) {
    end_ = instance.deadline.value_or(begun_ + kLongestSearch);
  }

  Result<ExactSolution> run() {
    SQUARE_RETURN_IF_ERROR(find_rates());
    ClimbOptions options{.until = after(kLevelsPart)};
    std::vector<ProvenLevel> levels;  // that are proven well enough
    for (int climbs = 0; climbs < kMostClimbs; ++climbs) {
      Ladder ladder = climb(instance_, mixture_, mixture_.rates(), options, std::move(levels));
      if (ladder.late && climbs > 0) break;  // what was found before is whole
      choose_streams(ladder);
      ExactSolution found = written(ladder);
      if (climbs > 0 && is_less(found.lp_rate, solution_.lp_rate)) break;
      solution_ = std::move(found);
      levels = well_proven(ladder.levels);
      if (ladder.late || levels.size() == ladder.levels.size()) break;
      options.room *= kFiner;
      options.steepness /= kFiner;
    }
    if (!streams_) solution_.carried.reset();
    return std::move(solution_);
  }

 private:
  [[nodiscard]] TimePoint after(double part) const {
    return begun_ + std::chrono::duration_cast<Duration>((end_ - begun_) * part);
  }

  // Rates that fit, better round by round: what is full becomes long, who can goes elsewhere, and the room
  // that this makes is given away.
  Status find_rates() {
    const Phase phase("looking for first trees");
    mixture_.set_steepness(kEarlySteepness);
    std::vector<double> rates;
    for (const Group& group : instance_.groups)
      rates.push_back(group.alternatives.empty() ? 0.0 : group.weight);
    mixture_.set_rates(rates);
    for (int round = 0; round < kEarlyRounds; ++round) {
      if (round > 0 && steady_clock().now() >= after(kRatesPart)) break;
      if (!refill(kEarlyPasses))
        return failed_precondition("no tree was found that keeps the latency bounds");
      mixture_.set_steepness(std::min(kLateSteepness, mixture_.steepness() * kEarlySteeper));
    }
    return Status::ok();
  }

  // All at their rates together, over few ways, and what is then left over given away.
  void choose_streams(const Ladder& ladder) {
    const Phase phase("choosing trees");
    std::vector<double> most = ladder.rate;
    for (double& rate : most) rate *= kOverLevel;
    mixture_.set_rates(ladder.rate);
    mixture_.set_steepness(kLateSteepness);
    settle(mixture_, kFinalSteepness, end_, ladder.thorough);
    for (int round = 0; round < kRefillings && steady_clock().now() < end_; ++round)
      refill(kStreamPasses, most, ladder.thorough);
    const std::size_t asked = instance_.problem->scenario->policy.max_streams;
    const std::size_t each = std::clamp(kStreamsOfAll / most.size(), kLeastStreams, kMostStreams);
    for (int round = 0; round < kStreamRounds; ++round) {
      mixture_.drop_thin(kThinWay, asked > 0 ? asked : each);
      mixture_.even_out(kStreamPasses);
      mixture_.set_rates(water_filling(instance_, mixture_, most));
    }
  }

  // Makes room, and gives it away.
  bool refill(int passes, const std::vector<double>& most = {}, bool thorough = false) {
    const bool found = mixture_.find_ways(thorough);
    mixture_.even_out(passes);
    mixture_.set_rates(water_filling(instance_, mixture_, most));
    return found;
  }

  // The trees of the ways, and what there is left given to those that can have it.
  [[nodiscard]] ExactSolution written(Ladder& ladder) const {
    std::vector<std::vector<QuickTree>> trees(instance_.demands.size());
    std::vector<std::vector<double>> parts;
    const double fit = 1.0 / std::max(1.0, mixture_.fullest());
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      parts.emplace_back(instance_.groups[c].alternatives.size());
      for (const GroupWay& way : mixture_.ways()[c]) {
        if (way.rate <= 0.0) continue;
        const Alternative& alternative = instance_.groups[c].alternatives[way.alternative];
        parts[c][way.alternative] += way.rate / mixture_.rates()[c];
        for (std::size_t k = 0; k < way.trees.size(); ++k)
          add_tree(way.trees[k], way.rate * alternative.fractions[k] * fit, trees[alternative.demands[k]]);
      }
    }
    std::vector<std::vector<double>> rates = fill(what_is_left(trees), trees, parts).tree_rate;
    for (std::size_t i = 0; i < trees.size(); ++i) {
      for (std::size_t t = 0; t < trees[i].size(); ++t) rates[i][t] += trees[i][t].weight;
    }
    ExactSolution solution = solution_of(instance_, filled_by(instance_, std::move(rates)), trees);
    write_levels(ladder.levels, solution);
    return solution;
  }

  // The instance where the trees have taken their weights.
  [[nodiscard]] Instance what_is_left(const std::vector<std::vector<QuickTree>>& trees) const {
    Instance left = instance_;
    const auto take = [](double bps, double& limit) { limit = std::max(limit - bps, 0.0); };
    for (const auto& of_demand : trees) {
      for (const QuickTree& tree : of_demand) {
        for (const int link : tree.links) {
          const auto e = static_cast<std::size_t>(link);
          take(tree.weight, left.network.capacity_bps[e]);
          take(tree.weight, left.network.egress_bps[left.tail[e].index()]);
          take(tree.weight, left.network.ingress_bps[left.head[e].index()]);
          if (left.budget_usd_per_hour) take(tree.weight * left.price[e], *left.budget_usd_per_hour);
        }
      }
    }
    return left;
  }

  static void add_tree(const std::vector<int>& links, double rate, std::vector<QuickTree>& trees) {
    const auto known =
        std::find_if(trees.begin(), trees.end(), [&](const QuickTree& tree) { return tree.links == links; });
    if (known != trees.end()) {
      known->weight += rate;
    } else {
      trees.push_back({links, rate});
    }
  }

  // With the rates that came of them.
  void write_levels(std::vector<ProvenLevel>& levels, ExactSolution& solution) const {
    FairRates rates{solution.lp_rate, {}, {}, false, {}};
    for (const ProvenLevel& level : levels) rates.levels.push_back(FairLevel{0.0, level.groups, {}, {}});
    double least = kUnreachable;
    for (std::size_t k = levels.size(); k-- > 0;) {
      for (const std::size_t c : levels[k].groups)
        least = std::min(least, solution.lp_rate[c] / instance_.groups[c].weight);
      levels[k].level = rates.levels[k].level = least;
    }
    const std::vector<Targets> targets = level_targets(instance_, rates);
    for (std::size_t k = 0; k < targets.size(); ++k) {
      levels[k].proof.bound = proven_bound(instance_, targets[k], levels[k].proof);
      solution.levels.push_back(plan_level(instance_, targets[k], levels[k].proof, levels[k].groups));
    }
  }

  // Lexicographically, from the least level up.
  [[nodiscard]] bool is_less(const std::vector<double>& one, const std::vector<double>& other) const {
    const std::vector<double> a = sorted_levels(one);
    const std::vector<double> b = sorted_levels(other);
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (std::abs(a[k] - b[k]) > kAboutSame * b[k]) return a[k] < b[k];
    }
    return false;
  }

  [[nodiscard]] std::vector<double> sorted_levels(const std::vector<double>& rates) const {
    std::vector<double> levels;
    for (std::size_t c = 0; c < rates.size(); ++c) levels.push_back(rates[c] / instance_.groups[c].weight);
    std::sort(levels.begin(), levels.end());
    return levels;
  }

  // The first ones, up to one that is not.
  [[nodiscard]] std::vector<ProvenLevel> well_proven(std::vector<ProvenLevel>& levels) const {
    const double gap = std::max(instance_.problem->scenario->policy.gap, kLeastGap);
    const auto end = std::find_if(levels.begin(), levels.end(), [&](const ProvenLevel& level) {
      return level.proof.bound > level.level * (1.0 + gap);
    });
    return {std::make_move_iterator(levels.begin()), std::make_move_iterator(end)};
  }

  const Instance& instance_;
  const bool streams_;
  Mixture mixture_;
  const TimePoint begun_;
  TimePoint end_;
  ExactSolution solution_;
};

}  // namespace

bool is_large(const Instance& instance) {
  if (instance.node_count() < kManyNodes) return false;
  std::size_t arcs = 0;
  for (const Demand& demand : instance.demands) {
    if (demand.redundancy > 0) return false;
    if (demand.terminals.size() > 1) arcs += demand.graph->link.size();
  }
  return arcs >= kManyArcs;
}

Result<ExactSolution> solve_large(const Instance& instance, bool streams) {
  return Large(instance, streams).run();
}

}  // namespace square::planning
