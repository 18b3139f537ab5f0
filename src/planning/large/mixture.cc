#include "planning/large/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

// A way must be shorter than those known by this part to be taken in.
constexpr double kShorter = 1e-4;
// Ways of a group that are known at once, for each of its alternatives: a new one takes the place of the
// thinnest that is not among the newest.
constexpr std::size_t kMostWays = 40;
constexpr std::size_t kNewest = 8;
// Who pays less than this part of what groups pay on average hardly stands in anybody's way.
constexpr double kHardly = 1e-3;
// Moves to a new way, and between the ways of a group in one pass.
constexpr int kMovesToNew = 3;
constexpr int kMovesInPass = 2;
// A move makes nothing longer by more than this, as a power of e: the step that it takes is Newton's.
constexpr double kLongestStep = 1.5;
// Lengths below this part of the longest, times their limits, hardly count.
constexpr double kNegligible = 1e-4;

}  // namespace

Mixture::Mixture(const Instance& instance)
    : instance_(instance),
      resources_(instance),
      ways_(instance.groups.size()),
      rates_(instance.groups.size()),
      used_(resources_.count()),
      length_(resources_.count()),
      apart_(resources_.count()) {
  for (const Demand& demand : instance.demands) pricers_.emplace_back(demand);
  measure();
}

void Mixture::set_rates(const std::vector<double>& rates) {
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    for (GroupWay& way : ways_[c]) way.rate = rates_[c] > 0.0 ? way.rate * (rates[c] / rates_[c]) : 0.0;
    if (rates_[c] <= 0.0 && !ways_[c].empty()) ways_[c].front().rate = rates[c];
  }
  rates_ = rates;
  measure();
}

void Mixture::set_steepness(double steepness) {
  steepness_ = steepness;
  measure();
}

// All anew, so that no rounding is left from what was moved.
void Mixture::measure() {
  std::fill(used_.begin(), used_.end(), 0.0);
  for (const auto& ways : ways_) {
    for (const GroupWay& way : ways) {
      for (const Use& use : way.uses) used_[use.resource] += way.rate * use.part;
    }
  }
  height_ = fullest();
  for (std::size_t r = 0; r < used_.size(); ++r) length_[r] = length_of(r);
}

double Mixture::length_of(std::size_t resource) const {
  const double limit = resources_.limit(resource);
  if (!std::isfinite(limit) || limit <= 0.0) return 0.0;
  return std::exp(steepness_ * (used_[resource] / limit - height_)) / limit;
}

void Mixture::change(const Use& use, double bps) {
  used_[use.resource] += bps * use.part;
  length_[use.resource] = length_of(use.resource);
}

double Mixture::cost(const GroupWay& way) const {
  double sum = 0.0;
  for (const Use& use : way.uses) sum += use.part * length_[use.resource];
  return sum;
}

double Mixture::fullest() const {
  double most = 0.0;
  for (std::size_t r = 0; r < used_.size(); ++r) {
    if (used_[r] > 0.0) most = std::max(most, used_[r] / resources_.limit(r));
  }
  return most;
}

std::vector<double> Mixture::shortest() const {
  std::vector<double> least(ways_.size(), kUnreachable);
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    for (const GroupWay& way : ways_[c]) least[c] = std::min(least[c], cost(way));
  }
  return least;
}

double Mixture::least_fullest() const {
  double paid = 0.0;
  double worth = 0.0;
  const std::vector<double> least = shortest();
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    if (rates_[c] > 0.0) paid += rates_[c] * least[c];
  }
  for (std::size_t r = 0; r < length_.size(); ++r) {
    if (length_[r] > 0.0) worth += length_[r] * resources_.limit(r);
  }
  return worth > 0.0 ? paid / worth : 0.0;
}

std::vector<double> Mixture::lengths() const {
  std::vector<double> lengths = length_;
  const double top = std::exp(steepness_ * (fullest() - height_));
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    if (lengths[r] <= 0.0) continue;
    lengths[r] = lengths[r] * resources_.limit(r) < kNegligible * top ? 0.0 : lengths[r] / top;
  }
  return lengths;
}

std::optional<GroupWay> Mixture::shortest_way(const Group& group, bool thorough) {
  const std::vector<double> link_cost = resources_.duals(length_).link_cost(instance_);
  std::optional<GroupWay> best;
  double least = kUnreachable;
  for (std::size_t a = 0; a < group.alternatives.size(); ++a) {
    const Alternative& alternative = group.alternatives[a];
    std::vector<std::pair<std::vector<int>, double>> trees;
    double sum = 0.0;
    for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
      look_at_budget();
      TreePricer& pricer = pricers_[alternative.demands[k]];
      std::optional<PricedTree> tree = thorough ? pricer.cheapest(link_cost) : pricer.good(link_cost);
      if (!tree.has_value()) break;
      sum += alternative.fractions[k] * tree->cost;
      trees.emplace_back(std::move(tree->links), alternative.fractions[k]);
    }
    if (trees.size() < alternative.demands.size() || sum >= least) continue;
    least = sum;
    best = GroupWay{a, {}, resources_.uses(trees), 0.0};
    for (auto& [links, part] : trees) best->trees.push_back(std::move(links));
  }
  return best;
}

std::vector<bool> Mixture::who_pays() const {
  std::vector<double> paid(ways_.size());
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    for (const GroupWay& way : ways_[c]) {
      if (way.rate > 0.0) paid[c] += way.rate * cost(way);
    }
  }
  const double all = std::accumulate(paid.begin(), paid.end(), 0.0);
  const double least = kHardly * all / static_cast<double>(std::max<std::size_t>(ways_.size(), 1));
  std::vector<bool> is_paying;
  for (const double cost : paid) is_paying.push_back(cost >= least);
  return is_paying;
}

bool Mixture::find_ways(bool thorough) {
  measure();
  const std::vector<bool> is_paying = who_pays();
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    if (rates_[c] <= 0.0 || (!ways_[c].empty() && !is_paying[c])) continue;
    std::optional<GroupWay> way = shortest_way(instance_.groups[c], thorough);
    if (!way.has_value()) return false;
    take_in(c, *std::move(way));
  }
  measure();
  return true;
}

void Mixture::take_in(std::size_t group, GroupWay way) {
  std::vector<GroupWay>& ways = ways_[group];
  if (ways.empty()) {
    ways.push_back(std::move(way));
    ways.back().rate = rates_[group];
    for (const Use& use : ways.back().uses) change(use, rates_[group]);
    return;
  }
  const double length = cost(way);
  if (std::any_of(ways.begin(), ways.end(),
                  [&](const GroupWay& known) { return length >= cost(known) * (1.0 - kShorter); }))
    return;
  if (ways.size() >= kMostWays * instance_.groups[group].alternatives.size()) {
    const auto thinnest =
        std::min_element(ways.begin(), ways.end() - kNewest,
                         [](const GroupWay& a, const GroupWay& b) { return a.rate < b.rate; });
    for (const Use& use : thinnest->uses) change(use, -thinnest->rate);
    for (const Use& use : way.uses) change(use, thinnest->rate);
    way.rate = thinnest->rate;
    ways.erase(thinnest);
  }
  ways.push_back(std::move(way));
  for (int k = 0; k < kMovesToNew; ++k) {
    GroupWay* longest = nullptr;
    for (std::size_t w = 0; w + 1 < ways.size(); ++w) {
      if (ways[w].rate > 0.0 && (longest == nullptr || cost(ways[w]) > cost(*longest))) longest = &ways[w];
    }
    if (longest != nullptr) move(*longest, ways.back());
  }
}

void Mixture::even_out(int times) {
  const std::vector<bool> is_paying = who_pays();
  std::vector<double> costs;
  for (int pass = 0; pass < times; ++pass) {
    look_at_budget();
    for (std::size_t c = 0; c < ways_.size(); ++c) {
      std::vector<GroupWay>& ways = ways_[c];
      for (int k = 0; k < kMovesInPass && is_paying[c] && ways.size() > 1; ++k) {
        costs.clear();
        for (const GroupWay& way : ways) costs.push_back(cost(way));
        const auto shortest = static_cast<std::size_t>(
            std::distance(costs.begin(), std::min_element(costs.begin(), costs.end())));
        std::size_t longest = shortest;
        for (std::size_t w = 0; w < ways.size(); ++w) {
          if (ways[w].rate > 0.0 && costs[w] > costs[longest]) longest = w;
        }
        if (longest != shortest) move(ways[longest], ways[shortest]);
      }
    }
  }
  measure();
}

// As much as Newton's method says for the sum of exponentials along the move.
void Mixture::move(GroupWay& from, GroupWay& to) {
  for (const Use& use : from.uses) apart_[use.resource] -= use.part;
  for (const Use& use : to.uses) apart_[use.resource] += use.part;
  double gain = 0.0;
  double curve = 0.0;
  double most = from.rate;
  const auto look = [&](const Use& use) {
    const double more = apart_[use.resource];
    const double limit = resources_.limit(use.resource);
    gain -= more * length_[use.resource];
    curve += more * more * length_[use.resource] * steepness_ / limit;
    if (more > 0.0) most = std::min(most, kLongestStep * limit / (steepness_ * more));
  };
  for (const Use& use : from.uses) look(use);
  for (const Use& use : to.uses) {
    const bool is_new = apart_[use.resource] == use.part;
    if (is_new) look(use);
  }
  const double step = gain > 0.0 && curve > 0.0 ? std::min(most, gain / curve) : 0.0;
  for (const std::vector<Use>* uses : {&from.uses, &to.uses}) {
    for (const Use& use : *uses) {
      const double more = std::exchange(apart_[use.resource], 0.0);
      if (step > 0.0 && more != 0.0) change({use.resource, more}, step);
    }
  }
  from.rate = std::max(from.rate - step, 0.0);
  to.rate += step;
}

void Mixture::drop_thin(double part, std::size_t most) {
  for (std::size_t c = 0; c < ways_.size(); ++c) {
    std::vector<GroupWay>& ways = ways_[c];
    std::stable_sort(ways.begin(), ways.end(),
                     [](const GroupWay& a, const GroupWay& b) { return a.rate > b.rate; });
    const std::size_t alternatives = std::max<std::size_t>(instance_.groups[c].alternatives.size(), 1);
    const double least = part * rates_[c] / static_cast<double>(alternatives);
    std::vector<std::size_t> kept(alternatives);
    bool is_first = true;
    std::erase_if(ways, [&](const GroupWay& way) {
      const bool stays =
          std::exchange(is_first, false) || (way.rate >= least && kept[way.alternative] < most);
      kept[way.alternative] += stays ? 1 : 0;
      return !stays;
    });
    double left = 0.0;
    for (const GroupWay& way : ways) left += way.rate;
    for (GroupWay& way : ways) way.rate *= left > 0.0 ? rates_[c] / left : 0.0;
  }
  measure();
}

}  // namespace square::planning
