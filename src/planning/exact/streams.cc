#include "planning/exact/streams.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/coded_streams.h"
#include "planning/exact/load.h"

namespace square::planning {
namespace {

// What a solver's tolerance may have promised too much.
constexpr double kSlack = 1e-9;
// A tree, or a share of an all-reduce, with less of its group's rate is a solver's noise.
constexpr double kNoStreamRate = 1e-8;

void shrink(double most, std::size_t demand, Carried& carried) {
  const double part = fitting_factor(rate_of(carried, demand), most);
  for (Carried::Tree& tree : carried.trees[demand]) tree.rate *= part;
  std::erase_if(carried.trees[demand], [](const Carried::Tree& tree) { return tree.rate <= 0.0; });
}

// Both halves of a share carry what the lesser does; the rest is a solver's noise.
void level_shares(const Instance& instance, Carried& carried) {
  for (const Group& group : instance.groups) {
    if (group.alternatives.size() < 2) continue;
    for (const Alternative& share : group.alternatives) {
      double least = kUnreachable;
      for (const std::size_t i : share.demands) least = std::min(least, rate_of(carried, i));
      for (const std::size_t i : share.demands) shrink(least, i, carried);
    }
  }
}

// By demand: what its group needs of it at most.
std::vector<double> most_rates(const Instance& instance, const std::vector<double>& group_rate) {
  std::vector<double> rates(instance.demands.size(), 0.0);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    for (const Alternative& alternative : instance.groups[c].alternatives) {
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        rates[alternative.demands[k]] = alternative.fractions[k] * group_rate[c];
      }
    }
  }
  return rates;
}

Carried trees_of(const Instance& instance, const ColumnPool& pool, const std::vector<double>& rate,
                 const std::vector<double>& group_rate) {
  Carried carried{std::vector<std::vector<Carried::Tree>>(instance.demands.size())};
  const std::vector<double> whole = most_rates(instance, group_rate);
  for (std::size_t k = 0; k < rate.size(); ++k) {
    const Column& column = pool.columns()[k];
    if (rate[k] <= kNoStreamRate * whole[column.demand]) continue;
    carried.trees[column.demand].push_back({column.links, rate[k], column.usage, column.code});
  }
  for (auto& trees : carried.trees) {
    std::stable_sort(trees.begin(), trees.end(),
                     [](const Carried::Tree& a, const Carried::Tree& b) { return a.rate > b.rate; });
  }
  level_shares(instance, carried);
  return carried;
}

// What links, nodes and the budget are asked for, and how far rates must go down until that fits: the solver
// keeps rows to its tolerance, the result keeps them exactly.
class Loads {
 public:
  explicit Loads(const Instance& instance) : instance_(instance), load_(instance) {}

  void add(int link, double bps) {
    load_.add(instance_, link, bps);
    cost_ += bps * instance_.price[static_cast<std::size_t>(link)];
  }

  [[nodiscard]] double factor(const std::vector<int>& links) const {
    double least = fitting_factor(cost_, instance_.budget_usd_per_hour.value_or(kUnreachable));
    for (const int number : links) {
      const auto e = static_cast<std::size_t>(number);
      const auto tail = instance_.tail[e].index();
      const auto head = instance_.head[e].index();
      least = std::min({least, fitting_factor(load_.link[e], instance_.network.capacity_bps[e]),
                        fitting_factor(load_.egress[tail], instance_.network.egress_bps[tail]),
                        fitting_factor(load_.ingress[head], instance_.network.ingress_bps[head])});
    }
    return least;
  }

 private:
  const Instance& instance_;
  Load load_;
  double cost_ = 0.0;
};

void clip(const Instance& instance, Carried& carried) {
  Loads loads(instance);
  for (const auto& trees : carried.trees) {
    for (const Carried::Tree& tree : trees) {
      for (std::size_t k = 0; k < tree.links.size(); ++k) loads.add(tree.links[k], tree.load(k));
    }
  }
  for (auto& trees : carried.trees) {
    for (Carried::Tree& tree : trees) tree.rate *= loads.factor(tree.links);
  }
}

}  // namespace

double rate_of(const Carried& carried, std::size_t demand) {
  double rate = 0.0;
  for (const Carried::Tree& tree : carried.trees[demand]) rate += tree.rate;
  return rate;
}

Result<Carried> carry(const Instance& instance, const ColumnPool& pool, const std::vector<double>& rate,
                      const std::vector<double>& link_price, Basis* basis) {
  const Phase phase("choosing trees with little traffic");
  Targets targets;
  targets.weight.assign(rate.size(), 1.0);
  for (const double bps : rate) {
    targets.kind.push_back(bps > 0.0 ? Targets::Kind::kFixed : Targets::Kind::kAbsent);
    targets.rate.push_back(bps * (1.0 - kSlack));
  }
  targets.exactly = true;
  targets.link_cost = link_price.empty() ? std::vector<double>(instance.link_count(), 1.0) : link_price;
  Master master(instance, pool, targets, basis == nullptr ? Basis{} : std::move(*basis));
  SQUARE_ASSIGN_OR_RETURN(const MasterAnswer answer, master.solve());
  if (basis != nullptr) *basis = master.basis();
  Carried carried = trees_of(instance, pool, answer.rate, rate);
  clip(instance, carried);
  return carried;
}

Carried carry_as_is(const Instance& instance, const ColumnPool& pool, const std::vector<double>& column_rate,
                    const std::vector<double>& rate) {
  Carried carried = trees_of(instance, pool, column_rate, rate);
  clip(instance, carried);
  const std::vector<std::vector<double>> shares = shares_of(instance, carried);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    const std::vector<Alternative>& alternatives = instance.groups[c].alternatives;
    const double whole = std::accumulate(shares[c].begin(), shares[c].end(), 0.0);
    for (std::size_t a = 0; a < alternatives.size(); ++a) {
      const double share =
          alternatives.size() == 1 ? rate[c] : shares[c][a] * (whole > rate[c] ? rate[c] / whole : 1.0);
      for (std::size_t k = 0; k < alternatives[a].demands.size(); ++k) {
        shrink(alternatives[a].fractions[k] * share, alternatives[a].demands[k], carried);
      }
    }
  }
  return carried;
}

std::vector<double> clip(const Instance& instance, std::vector<std::pair<Column, double>>& flows) {
  Loads loads(instance);
  for (const auto& [column, rate] : flows) {
    for (std::size_t k = 0; k < column.links.size(); ++k)
      loads.add(column.links[k], rate * column.usage_at(k));
  }
  std::vector<double> demand_rate(instance.demands.size(), 0.0);
  for (auto& [column, rate] : flows) {
    rate *= loads.factor(column.links);
    demand_rate[column.demand] += rate;
  }
  return demand_rate;
}

std::vector<double> demand_rates(const Instance& instance, const std::vector<double>& rate,
                                 const std::vector<std::vector<double>>& share) {
  std::vector<double> rates(instance.demands.size(), 0.0);
  for (std::size_t c = 0; c < instance.groups.size(); ++c) {
    const std::vector<Alternative>& alternatives = instance.groups[c].alternatives;
    for (std::size_t a = 0; a < alternatives.size(); ++a) {
      for (std::size_t k = 0; k < alternatives[a].demands.size(); ++k) {
        rates[alternatives[a].demands[k]] =
            alternatives[a].fractions[k] * (alternatives.size() > 1 ? share[c][a] : rate[c]);
      }
    }
  }
  return rates;
}

std::vector<std::vector<double>> shares_of(const Instance& instance, const Carried& carried) {
  std::vector<std::vector<double>> shares;
  for (const Group& group : instance.groups) {
    std::vector<double>& share = shares.emplace_back();
    if (group.alternatives.size() < 2) continue;
    for (const Alternative& alternative : group.alternatives) {
      double least = kUnreachable;
      for (const std::size_t i : alternative.demands) least = std::min(least, rate_of(carried, i));
      share.push_back(least);
    }
  }
  return shares;
}

void write_streams(const Instance& instance, const Carried& carried, std::size_t demand,
                   PlanSession& session) {
  for (const Carried::Tree& tree : carried.trees[demand]) {
    if (tree.code) {
      write_code(*instance.demands[demand].graph, *tree.code, tree.rate, session);
      continue;
    }
    PlanStream& stream = session.streams.emplace_back();
    stream.rate_bps = tree.rate;
    for (const int link : tree.links) {
      stream.links.emplace_back(instance.tail[static_cast<std::size_t>(link)],
                                instance.head[static_cast<std::size_t>(link)]);
    }
    // Away from the root in a multicast, towards it in a reduce.
    if (instance.demands[demand].reversed) std::reverse(stream.links.begin(), stream.links.end());
  }
}

}  // namespace square::planning
