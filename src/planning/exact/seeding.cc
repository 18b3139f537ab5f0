// The first columns of a generation.
#include <algorithm>
#include <cmath>

#include "base/spending.h"
#include "planning/exact/generation.h"
#include "planning/exact/master.h"
#include "planning/packing/steiner_table.h"

namespace square::planning {
namespace {

constexpr int kSeedRounds = 24;
// Where cheapest trees cannot be computed, later ones are hardly better than these.
constexpr int kManySeedRounds = 60;
// Where all demands have trees, to know about what they reach together.
constexpr int kKnownRounds = 3;
// How much longer a resource becomes that a round fills.
constexpr double kSeedStep = 0.6;

// What the rounds put on every resource, relative to its size.
struct Congestion {
  std::vector<double> link;
  std::vector<double> egress;
  std::vector<double> ingress;
  double budget = 0.0;

  explicit Congestion(const Instance& instance)
      : link(instance.link_count()), egress(instance.node_count()), ingress(instance.node_count()) {}

  void add(const Instance& instance, const Column& column, double column_rate) {
    for (std::size_t k = 0; k < column.links.size(); ++k) {
      const auto e = static_cast<std::size_t>(column.links[k]);
      const double rate = column_rate * column.usage_at(k);
      const auto tail = instance.tail[e].index();
      const auto head = instance.head[e].index();
      link[e] += rate / instance.network.capacity_bps[e];
      egress[tail] += rate / instance.network.egress_bps[tail];
      ingress[head] += rate / instance.network.ingress_bps[head];
      if (instance.budget_usd_per_hour.has_value()) {
        budget += rate * instance.price[e] / *instance.budget_usd_per_hour;
      }
    }
  }

  void add(const Congestion& other) {
    for (std::size_t e = 0; e < link.size(); ++e) link[e] += other.link[e];
    for (std::size_t v = 0; v < egress.size(); ++v) {
      egress[v] += other.egress[v];
      ingress[v] += other.ingress[v];
    }
    budget += other.budget;
  }

  [[nodiscard]] double largest() const {
    return std::max({*std::max_element(link.begin(), link.end()),
                     *std::max_element(egress.begin(), egress.end()),
                     *std::max_element(ingress.begin(), ingress.end()), budget});
  }
};

// Every resource is as long as a bit per second is large in it.
Duals first_lengths(const Instance& instance) {
  Duals duals;
  for (const double capacity : instance.network.capacity_bps) {
    duals.link.push_back(capacity > 0.0 ? 1.0 / capacity : 0.0);
  }
  for (const double limit : instance.network.egress_bps) duals.egress.push_back(1.0 / limit);
  for (const double limit : instance.network.ingress_bps) duals.ingress.push_back(1.0 / limit);
  if (instance.budget_usd_per_hour.has_value()) duals.budget = 1.0 / *instance.budget_usd_per_hour;
  return duals;
}

void lengthen(const std::vector<double>& load, double largest, std::vector<double>& length) {
  for (std::size_t k = 0; k < load.size(); ++k) length[k] *= 1.0 + kSeedStep * load[k] / largest;
}

}  // namespace

// Multiplicative weights, one round after another.
class Generation::Seeding {
 public:
  Seeding(Generation& generation, const Targets& targets, bool only_missing)
      : generation_(generation),
        instance_(generation.instance_),
        targets_(targets),
        known_(instance_.demands.size()),
        lengths_(first_lengths(instance_)),
        total_(instance_) {
    if (!only_missing) return;
    const std::vector<Column>& columns = generation.pool_.columns();
    for (std::size_t k = 0; k < columns.size(); ++k) known_[columns[k].demand].push_back(k);
  }

  double run() {
    const Phase phase("looking for first trees");
    const int rounds = number_of_rounds();
    int done = 0;
    for (; done < rounds && (done == 0 || !is_late()); ++done) {
      cost_ = lengths_.link_cost(instance_);
      Congestion load(instance_);
      for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
        if (targets_.kind[c] != Targets::Kind::kAbsent && !route(c, load)) return 0.0;
      }
      const double largest = load.largest();
      if (largest <= 0.0) return 0.0;
      lengthen(load.link, largest, lengths_.link);
      lengthen(load.egress, largest, lengths_.egress);
      lengthen(load.ingress, largest, lengths_.ingress);
      lengths_.budget *= 1.0 + kSeedStep * load.budget / largest;
      total_.add(load);
    }
    // All rounds together, shrunk until they fit.
    const double fit = 1.0 / total_.largest();
    carried_.resize(generation_.pool_.size());
    for (double& rate : carried_) rate *= fit;
    generation_.seeded_ = std::move(carried_);
    generation_.centre_ = std::move(lengths_);
    return done * fit;
  }

 private:
  [[nodiscard]] bool is_late() const {
    const std::optional<TimePoint>& deadline = generation_.options_.deadline;
    return deadline.has_value() && steady_clock().now() >= *deadline;
  }

  [[nodiscard]] int number_of_rounds() const {
    int rounds = kKnownRounds;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (!known_[i].empty()) continue;
      const Demand& demand = instance_.demands[i];
      const bool many = !demand.spanning && demand.terminals.size() > SteinerTable::kMaxTerminals;
      rounds = std::max(rounds, many ? kManySeedRounds : kSeedRounds);
    }
    return rounds;
  }

  // All that a group needs, over its cheapest alternative. Whether there are trees.
  bool route(std::size_t c, Congestion& load) {
    const double rate = targets_.kind[c] == Targets::Kind::kActive ? targets_.weight[c] : targets_.rate[c];
    double cheapest = kUnreachable;
    std::vector<std::size_t> best;  // columns
    const Alternative* chosen = nullptr;
    for (const Alternative& alternative : instance_.groups[c].alternatives) {
      look_at_budget();
      double sum = 0.0;
      std::vector<std::size_t> columns;
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        const std::optional<std::size_t> column = tree_of(alternative.demands[k]);
        if (!column.has_value()) return false;
        sum += alternative.fractions[k] * generation_.pool_.columns()[*column].cost(cost_);
        columns.push_back(*column);
      }
      if (sum >= cheapest) continue;
      cheapest = sum;
      best = std::move(columns);
      chosen = &alternative;
    }
    if (chosen == nullptr) return false;
    carried_.resize(generation_.pool_.size());
    for (std::size_t k = 0; k < best.size(); ++k) {
      carried_[best[k]] += chosen->fractions[k] * rate;
      load.add(instance_, generation_.pool_.columns()[best[k]], chosen->fractions[k] * rate);
    }
    return true;
  }

  // A column of the demand that is cheap now.
  std::optional<std::size_t> tree_of(std::size_t demand) {
    if (known_[demand].empty()) {
      look_at_budget();
      std::optional<Column> column = generation_.good(demand, cost_);
      if (!column.has_value()) return std::nullopt;
      return generation_.pool_.add(*std::move(column)).first;
    }
    const auto cost = [&](std::size_t k) { return generation_.pool_.columns()[k].cost(cost_); };
    return *std::min_element(known_[demand].begin(), known_[demand].end(),
                             [&](std::size_t a, std::size_t b) { return cost(a) < cost(b); });
  }

  Generation& generation_;
  const Instance& instance_;
  const Targets& targets_;
  std::vector<std::vector<std::size_t>> known_;  // by demand: columns that it goes by
  Duals lengths_;
  Congestion total_;
  std::vector<double> cost_;     // by link, of the round
  std::vector<double> carried_;  // by column, over all rounds
};

double Generation::seed(const Targets& targets) { return Seeding(*this, targets, false).run(); }
double Generation::seed_missing(const Targets& targets) { return Seeding(*this, targets, true).run(); }

}  // namespace square::planning
