#include "planning/exact/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/coded_streams.h"
#include "planning/exact/relaxation.h"

namespace square::planning {
namespace {

// A column is worth adding when it costs less than the duals pay by this part.
constexpr double kWorthwhile = 1e-9;
// How far the duals that are priced stay with the best ones so far (Wentges, 1997): those
// of a young master jump about.
constexpr double kStay = 0.5;
// Duals that cost the active groups less than this part of all are a solver's noise: those of
// a level before may be, when all that they price has stopped.
constexpr double kNoise = 1e-11;
constexpr double kRounding = 1e-7;
// So many trees of a demand are added a round: one for so many links, within bounds.
constexpr std::size_t kLinksPerTree = 64;
constexpr std::size_t kMinTreesPerRound = 4;
constexpr std::size_t kMaxTreesPerRound = 64;
// What a tree's links cost more for the next one, together, of what the master pays for a tree.
constexpr double kApart = 0.3;

void mix(const std::vector<double>& centre, double stay, std::vector<double>& values) {
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = stay * centre[k] + (1.0 - stay) * values[k];
}

// Every program here has an optimum: what says otherwise is a solver out of its depth.
Status unsolvable(const Status& status) {
  if (status.code() == StatusCode::kDeadlineExceeded) return status;
  return internal_error(fmt::format(
      "a linear program could not be solved, perhaps because capacities, prices or weights are too many "
      "orders of magnitude apart ({})",
      status.message()));
}

void scale(double factor, Duals& duals, std::vector<double>& demand_cost) {
  for (std::vector<double>* values : {&duals.link, &duals.egress, &duals.ingress, &demand_cost}) {
    for (double& value : *values) value *= factor;
  }
  duals.budget *= factor;
}

Duals between(const Duals& centre, double stay, Duals duals) {
  mix(centre.link, stay, duals.link);
  mix(centre.egress, stay, duals.egress);
  mix(centre.ingress, stay, duals.ingress);
  duals.budget = stay * centre.budget + (1.0 - stay) * duals.budget;
  return duals;
}

}  // namespace

double group_cost(const Group& group, const std::vector<double>& demand_cost) {
  double least = kUnreachable;
  for (const Alternative& alternative : group.alternatives) {
    double sum = 0.0;
    for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
      sum += alternative.fractions[k] * demand_cost[alternative.demands[k]];
    }
    least = std::min(least, sum);
  }
  return least;
}

GroupCosts group_costs(const Instance& instance, const Targets& targets,
                       const std::vector<double>& demand_cost) {
  GroupCosts costs;
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    if (targets.kind[c] == Targets::Kind::kAbsent) continue;
    const double cost = group_cost(instance.groups[c], demand_cost);
    if (targets.kind[c] == Targets::Kind::kActive) costs.active += targets.weight[c] * cost;
    if (targets.kind[c] == Targets::Kind::kFixed) costs.fixed += targets.rate[c] * cost;
  }
  return costs;
}

Generation::Generation(const Instance& instance, const GenerationOptions& options)
    : instance_(instance), options_(options), pool_(instance.demands.size()) {
  for (const Demand& demand : instance.demands) pricers_.emplace_back(demand);
}

CutPacking Generation::packing(std::size_t demand, const std::vector<double>& link_cost) {
  return pricers_[demand].bound(link_cost);
}

Result<CutPacking> Generation::exact_packing(std::size_t demand, const std::vector<double>& link_cost) {
  SQUARE_ASSIGN_OR_RETURN(Relaxation relaxed, relaxation(demand, link_cost));
  return std::move(relaxed.packing);
}

Result<Relaxation> Generation::relaxation(std::size_t demand, const std::vector<double>& link_cost) const {
  const Demand& what = instance_.demands[demand];
  std::vector<double> cost;
  for (const int link : what.graph->link) cost.push_back(link_cost[static_cast<std::size_t>(link)]);
  return steiner_relaxation(what.graph->graph, what.root, what.terminals, cost, kMaxRelaxationWork);
}

std::optional<Column> Generation::good(std::size_t demand, const std::vector<double>& link_cost) {
  if (instance_.demands[demand].redundancy > 0) return redundant_column(instance_, demand, link_cost);
  std::optional<PricedTree> tree = pricers_[demand].good(link_cost);
  if (!tree.has_value()) return std::nullopt;
  return Column{demand, std::move(tree->links), {}};
}

Result<std::optional<Generation::Priced>> Generation::price(std::size_t demand,
                                                            const std::vector<double>& link_cost) {
  if (instance_.demands[demand].redundancy > 0) {
    std::optional<Column> column = redundant_column(instance_, demand, link_cost);
    if (!column.has_value()) return std::optional<Priced>();
    const double cost = column->cost(link_cost);
    // What any way to send it costs: it does not know of the redundancy, so the bound is wide.
    return std::optional(Priced{*std::move(column), cost, pricers_[demand].bound(link_cost).length});
  }
  std::optional<PricedTree> tree = pricers_[demand].cheapest(link_cost);
  if (!tree.has_value()) return std::optional<Priced>();
  Priced priced{{demand, std::move(tree->links), {}, {}}, tree->cost, tree->cost};
  // Coding does better at most where trees branch; its ways are not bounded in time.
  const Demand& what = instance_.demands[demand];
  const bool coded =
      options_.coded && what.terminals.size() > 1 && !what.spanning && what.max_latency.empty();
  if (!tree->is_cheapest || coded) {
    priced.at_least = std::min(tree->cost, pricers_[demand].bound(link_cost).length);
  }
  if (!coded || priced.at_least >= priced.cost * (1.0 - kWorthwhile)) return std::optional(std::move(priced));

  SQUARE_ASSIGN_OR_RETURN(Relaxation relaxed, relaxation(demand, link_cost));
  priced.at_least = relaxed.cost;
  if (relaxed.cost < priced.cost * (1.0 - kWorthwhile)) {
    const std::vector<int>& link = what.graph->link;
    Column subgraph{demand, {}, {}, std::move(relaxed.paths)};
    for (std::size_t a = 0; a < relaxed.usage.size(); ++a) {
      if (relaxed.usage[a] <= 0.0) continue;
      subgraph.links.push_back(link[a]);
      subgraph.usage.push_back(relaxed.usage[a]);
    }
    for (auto& paths : subgraph.paths) {
      for (auto& [arcs, rate] : paths) {
        for (int& arc : arcs) arc = link[static_cast<std::size_t>(arc)];
      }
    }
    priced.column = std::move(subgraph);
    priced.cost = relaxed.cost;
  }
  return std::optional(std::move(priced));
}

// One program from its first master to its last.
class Generation::Run {
 public:
  Run(Generation& generation, const Targets& targets, const Basis& start, std::optional<double> enough)
      : generation_(generation),
        targets_(targets),
        levels_(targets.link_cost.empty()),
        enough_(enough),
        master_(generation.instance_, generation.pool_, targets, start) {
    answer_.bound = levels_ ? kUnreachable : 0.0;
  }

  Result<GenerationAnswer> solve() {
    const Phase phase("looking for better trees");
    for (int round = 0; round < kMaxRounds; ++round) {
      look_at_budget();
      Result<MasterAnswer> master = master_.solve(seconds_left());
      if (master.status().code() == StatusCode::kDeadlineExceeded && round > 0) {
        answer_.late = true;
        return finish();
      }
      if (!master.is_ok()) return unsolvable(master.status());
      answer_.master = std::move(master).value();
      const bool is_enough = enough_.has_value() && answer_.master.objective >= *enough_;
      if (is_enough || !generation_.options_.grow) {
        answer_.duals = {};  // nobody asks for a bound
        return finish();
      }
      SQUARE_ASSIGN_OR_RETURN(const bool improved, add_columns());
      if (!improved || is_close()) return finish();
      if (seconds_left() <= 0.0) {
        answer_.late = true;
        return finish();
      }
    }
    return resource_exhausted("column generation: no optimum after as many rounds as are allowed");
  }

 private:
  Result<GenerationAnswer> finish() {
    const bool has_bound = !answer_.duals.link.empty();
    note_binding(has_bound ? answer_.demand_cost : answer_.master.demand);
    if (!has_bound) answer_.duals = answer_.master.duals;
    generation_.centre_ = answer_.duals;
    answer_.demand_cost.resize(generation_.instance_.demands.size(), 0.0);
    answer_.basis = master_.basis();
    return std::move(answer_);
  }

  void note_binding(const std::vector<double>& demand_cost) {
    const Instance& instance = generation_.instance_;
    const double all = group_costs(instance, targets_, demand_cost).active;
    answer_.binding.assign(targets_.kind.size(), 0.0);
    if (all <= 0.0) return;
    for (std::size_t c = 0; c < targets_.kind.size(); ++c) {
      if (targets_.kind[c] != Targets::Kind::kActive) continue;
      answer_.binding[c] = targets_.weight[c] * group_cost(instance.groups[c], demand_cost) / all;
    }
  }

  [[nodiscard]] double seconds_left() const {
    const std::optional<TimePoint>& deadline = generation_.options_.deadline;
    return deadline.has_value() ? to_seconds(*deadline - steady_clock().now()) : kLpInfinity;
  }

  [[nodiscard]] bool is_close() const {
    const double value = answer_.master.objective;
    const double gap = generation_.options_.gap;
    return levels_ ? answer_.bound <= value * (1.0 + gap) : value <= answer_.bound * (1.0 + gap);
  }

  // Prices between the best duals and the master's; where that finds nothing, the master's.
  // A young master prices few links, so that its duals may bound nothing: then it is the
  // centre that has a bound first.
  Result<bool> add_columns() {
    const Duals& now = answer_.master.duals;
    if (!answer_.duals.link.empty()) {
      SQUARE_ASSIGN_OR_RETURN(const bool improved, probe(between(answer_.duals, kStay, now)));
      if (improved || is_close()) return improved;
    }
    SQUARE_ASSIGN_OR_RETURN(bool improved, probe(now));
    if (answer_.duals.link.empty() && generation_.centre_.has_value()) {
      SQUARE_ASSIGN_OR_RETURN(const bool more, probe(*generation_.centre_));
      improved = improved || more;
    }
    return improved;
  }

  // Adds every demand's cheapest column under `duals` that the master wants.
  Result<bool> probe(Duals duals) {
    const Instance& instance = generation_.instance_;
    const std::vector<double> cost = full_cost(duals);
    const std::vector<double> wanted = full_cost(answer_.master.duals);
    std::vector<double> demand_cost(instance.demands.size(), 0.0);
    bool improved = false;
    for (std::size_t c = 0; c < instance.groups.size(); ++c) {
      if (targets_.kind[c] == Targets::Kind::kAbsent) continue;
      for (const Alternative& alternative : instance.groups[c].alternatives) {
        for (const std::size_t i : alternative.demands) {
          look_at_budget();
          SQUARE_ASSIGN_OR_RETURN(std::optional<Priced> priced, generation_.price(i, cost));
          if (!priced.has_value()) continue;
          demand_cost[i] = priced->at_least;
          if (!is_wanted(priced->column, wanted)) continue;
          std::vector<int> links = priced->column.links;
          improved = generation_.pool_.add(std::move(priced->column)).second || improved;
          add_others(i, std::move(links), cost, wanted);
        }
      }
    }
    note_bound(std::move(duals), std::move(demand_cost));
    return improved;
  }

  [[nodiscard]] bool is_wanted(const Column& column, const std::vector<double>& wanted) const {
    return column.cost(wanted) < answer_.master.demand[column.demand] * (1.0 - kWorthwhile);
  }

  // More trees that the master wants, each away from those before: with one a round, a large
  // overlay would take very many rounds.
  void add_others(std::size_t demand, std::vector<int> links, std::vector<double> cost,
                  const std::vector<double>& wanted) {
    if (generation_.instance_.demands[demand].redundancy > 0) return;
    const std::size_t trees =
        std::clamp(generation_.instance_.link_count() / kLinksPerTree, kMinTreesPerRound, kMaxTreesPerRound);
    for (std::size_t k = 1; k < trees; ++k) {
      look_at_budget();
      const double step = kApart * answer_.master.demand[demand] / static_cast<double>(links.size());
      for (const int link : links) cost[static_cast<std::size_t>(link)] += step;
      std::optional<PricedTree> tree = generation_.pricers_[demand].cheapest(cost);
      if (!tree.has_value()) return;
      links = tree->links;
      Column column{demand, std::move(tree->links), {}, {}};
      if (!is_wanted(column, wanted) || !generation_.pool_.add(std::move(column)).second) return;
    }
  }

  [[nodiscard]] std::vector<double> full_cost(const Duals& duals) const {
    std::vector<double> cost = duals.link_cost(generation_.instance_);
    for (std::size_t e = 0; e < targets_.link_cost.size(); ++e) cost[e] += targets_.link_cost[e];
    return cost;
  }

  void note_bound(Duals duals, std::vector<double> demand_cost) {
    const GroupCosts costs = group_costs(generation_.instance_, targets_, demand_cost);
    const double worth = duals.worth(generation_.instance_);
    if (levels_) {
      const double reached = answer_.master.objective;
      if (costs.active * reached <= kNoise * worth) return;
      const double bound = (worth - costs.fixed) / costs.active;
      // Less than what is reached already can only come from rounding.
      if (!(bound < answer_.bound) || bound < reached * (1.0 - kRounding)) return;
      answer_.bound = bound;
      // In the units of a master's, so that the two can be mixed.
      scale(1.0 / costs.active, duals, demand_cost);
    } else {
      const double bound = costs.fixed - worth;
      if (bound > answer_.master.objective * (1.0 + kRounding)) return;
      if (!(bound > answer_.bound) && !answer_.duals.link.empty()) return;
      answer_.bound = bound;
    }
    answer_.duals = std::move(duals);
    answer_.demand_cost = std::move(demand_cost);
  }

  Generation& generation_;
  const Targets& targets_;
  const bool levels_;
  const std::optional<double> enough_;
  Master master_;
  GenerationAnswer answer_;
};

Result<GenerationAnswer> Generation::run(const Targets& targets, const Basis& start,
                                         std::optional<double> enough) {
  return Run(*this, targets, start, enough).solve();
}

}  // namespace square::planning
