#include "planning/exact/few_streams.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/fairness.h"

namespace square::planning {
namespace {

// So many times with other orders, every other time with parts of which each is half the one before.
constexpr std::uint64_t kOrders = 6;
// How often each part is led anew.
constexpr int kLedRounds = 12;
// A link that is as full as the fullest costs e to this as much as one that is empty.
constexpr double kSteepness = 8.0;

// About the level that the trees reach.
double unit_of(const Instance& instance, const Carried& carried) {
  double unit = kUnreachable;
  for (const Group& group : instance.groups) {
    double level = 0.0;
    for (const Alternative& alternative : group.alternatives) {
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        const double rate = rate_of(carried, alternative.demands[k]);
        level = std::max(level, rate / alternative.fractions[k] / group.weight);
      }
    }
    if (level > 0.0) unit = std::min(unit, level);
  }
  return unit;
}

// What the trees of `few` carry, fairly. On return in `few`; the least rate / weight.
Result<double> share_fairly(const Instance& instance, Carried& few) {
  GenerationOptions as_they_are;
  as_they_are.grow = false;
  Generation generation(instance, as_they_are);
  for (std::size_t i = 0; i < few.trees.size(); ++i) {
    for (const Carried::Tree& tree : few.trees[i])
      generation.pool().add({i, tree.links, tree.usage, {}, tree.code});
  }
  SQUARE_ASSIGN_OR_RETURN(const FairRates rates, fair_rates(generation, unit_of(instance, few)));
  SQUARE_ASSIGN_OR_RETURN(few, carry(instance, generation.pool(), rates.rate));
  return rates.levels.empty() ? 0.0 : rates.levels.front().level;
}

Result<double> drop_thinnest(const Instance& instance, std::size_t count, Carried& few) {
  double level = 0.0;
  while (true) {
    bool too_many = false;
    for (auto& trees : few.trees) {
      if (trees.size() <= count) continue;
      too_many = true;
      trees.resize(count + (trees.size() - count) / 2);
    }
    if (!too_many) return level;
    SQUARE_ASSIGN_OR_RETURN(level, share_fairly(instance, few));
  }
}

// Parts that go one way each, led around one another.
class Parts {
 public:
  Parts(const Instance& instance, const Carried& carried, std::size_t count, std::uint64_t seed)
      : instance_(instance),
        random_(seed),
        link_(instance.link_count(), 0.0),
        egress_(instance.node_count(), 0.0),
        ingress_(instance.node_count(), 0.0) {
    for (const Demand& demand : instance.demands) pricers_.emplace_back(demand);
    for (std::size_t i = 0; i < instance.demands.size(); ++i) {
      const double rate = rate_of(carried, i);
      const double step = seed % 2 == 0 ? 0.5 : 1.0;
      double sum = 0.0;
      for (std::size_t k = 0; k < count; ++k) sum += std::pow(step, k);
      for (std::size_t k = 0; k < count && rate > 0.0; ++k)
        parts_.push_back({i, rate * std::pow(step, k) / sum, {}});
    }
  }

  // False where a part finds no way.
  bool run() {
    for (int round = 0; round < kLedRounds; ++round) {
      std::ranges::shuffle(parts_, random_);
      for (Part& part : parts_) {
        look_at_budget();
        load(part, -part.size);
        std::optional<PricedTree> tree = pricers_[part.demand].good(lengths());
        if (!tree.has_value()) return false;
        part.links = std::move(tree->links);
        load(part, part.size);
      }
      keep_best();
    }
    return true;
  }

  // Of the round in which the fullest link was least full.
  [[nodiscard]] Carried best() const {
    Carried few{std::vector<std::vector<Carried::Tree>>(instance_.demands.size())};
    for (const Part& part : best_) {
      std::vector<Carried::Tree>& trees = few.trees[part.demand];
      const auto same = std::ranges::find(trees, part.links, &Carried::Tree::links);
      if (same != trees.end()) {
        same->rate += part.size;
      } else {
        trees.push_back({part.links, part.size, {}, {}});
      }
    }
    return few;
  }

 private:
  struct Part {
    std::size_t demand = 0;
    double size = 0.0;
    std::vector<int> links;
  };

  void load(const Part& part, double size) {
    for (const int link : part.links) {
      const auto e = static_cast<std::size_t>(link);
      const std::size_t tail = instance_.tail[e].index();
      const std::size_t head = instance_.head[e].index();
      link_[e] += size / instance_.network.capacity_bps[e];
      egress_[tail] += size / instance_.network.egress_bps[tail];
      ingress_[head] += size / instance_.network.ingress_bps[head];
    }
  }

  [[nodiscard]] double fullest() const {
    return std::max({*std::ranges::max_element(link_), *std::ranges::max_element(egress_),
                     *std::ranges::max_element(ingress_)});
  }

  // What a bit per second adds to a sum that the fullest of all resources rule.
  [[nodiscard]] std::vector<double> lengths() const {
    const double full = std::max(fullest(), 1.0);
    const auto length = [&](double load, double size) {
      return std::isfinite(size) && size > 0.0 ? std::exp(kSteepness * load / full) / size : 0.0;
    };
    std::vector<double> cost(link_.size());
    for (std::size_t e = 0; e < cost.size(); ++e) {
      const std::size_t tail = instance_.tail[e].index();
      const std::size_t head = instance_.head[e].index();
      cost[e] = length(link_[e], instance_.network.capacity_bps[e]) +
                length(egress_[tail], instance_.network.egress_bps[tail]) +
                length(ingress_[head], instance_.network.ingress_bps[head]);
    }
    return cost;
  }

  void keep_best() {
    const double full = fullest();
    if (!best_.empty() && full >= least_full_) return;
    least_full_ = full;
    best_ = parts_;
  }

  const Instance& instance_;
  std::mt19937_64 random_;
  std::vector<TreePricer> pricers_;  // by demand
  std::vector<Part> parts_;
  std::vector<double> link_;  // loads, as parts of what there is
  std::vector<double> egress_;
  std::vector<double> ingress_;
  std::vector<Part> best_;
  double least_full_ = 0.0;
};

}  // namespace

Result<Carried> carry_by_few(const Instance& instance, const Carried& carried, std::size_t count) {
  Carried thinned = carried;
  SQUARE_ASSIGN_OR_RETURN(const double by_thinning, drop_thinnest(instance, count, thinned));
  const auto is_redundant = [](const Demand& demand) { return demand.redundancy > 0; };
  const bool were_few = by_thinning == 0.0;
  if (were_few || instance.budget_usd_per_hour.has_value() ||
      std::ranges::any_of(instance.demands, is_redundant))
    return thinned;
  double best = by_thinning;
  Carried chosen = std::move(thinned);
  for (std::uint64_t seed = 1; seed <= kOrders; ++seed) {
    Parts parts(instance, carried, count, seed);
    if (!parts.run()) break;
    Carried led = parts.best();
    const Result<double> level = share_fairly(instance, led);
    if (!level.is_ok() || *level <= best) continue;
    best = *level;
    chosen = std::move(led);
  }
  return chosen;
}

}  // namespace square::planning
