#include "planning/exact/unicasts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "lp/solver.h"
#include "planning/exact/unicast_ways.h"

namespace square::planning {
namespace {

bool are_alike(const Instance& instance) {
  if (instance.demands.empty() || instance.budget_usd_per_hour.has_value()) return false;
  return std::ranges::all_of(instance.demands, [&](const Demand& demand) {
    return demand.terminals.size() == 1 && !demand.reversed && demand.max_latency.empty() &&
           demand.redundancy == 0 && demand.graph == instance.demands.front().graph;
  });
}

class Unicasts {
  // A way is worth having when it is shorter by this part of what goes straight.
  static constexpr double kShorter = 1e-9;
  // Less than a solver's tolerance leaves of rates.
  static constexpr double kSlack = 1e-9;
  static constexpr double kMostSlack = 1e-6;
  // A distance below this part of the longest is none.
  static constexpr double kNoDistance = 1e-11;

 public:
  explicit Unicasts(const Instance& instance)
      : instance_(instance),
        graph_(*instance.demands.front().graph),
        targets_(active_targets(instance)),
        group_of_(instance.demands.size(), 0),
        ways_(instance) {
    double sum = 0.0;
    for (const double capacity : instance.network.capacity_bps) sum += capacity;
    unit_ = sum / static_cast<double>(instance.link_count());
    for (std::size_t c = 0; c < instance.groups.size(); ++c) {
      for (const Alternative& only : instance.groups[c].alternatives) {
        for (const std::size_t demand : only.demands) group_of_[demand] = c;
      }
    }
  }

  Result<UnicastsAnswer> run() {
    const Phase phase("looking for ways of unicasts");
    UnicastsAnswer answer;
    targets_.unit = ways_.level_of_first_ways();
    Solution solution;
    while (std::ranges::find(targets_.kind, Targets::Kind::kActive) != targets_.kind.end()) {
      SQUARE_ASSIGN_OR_RETURN(solution, solve_level());
      const double level = solution.primal[0] * targets_.unit;
      if (!(level > 0.0)) return internal_error("the level of the active collectives is not positive");
      targets_.unit = level;
      ProvenLevel& out = answer.levels.emplace_back();
      out.level = level;
      out.proof = proof_by_distances();
      out.groups = stop_binding(binding(), level, targets_);
      ways_.sum_pairs(targets_);
    }
    answer.rate = targets_.rate;
    carry_with_little_traffic(std::move(solution), answer);
    return answer;
  }

 private:
  // --- the program: column 0 is the level, then ways

  // So that a solver's absolute tolerances are relative ones: links and nodes by what they carry, pairs by
  // what they need.
  void find_scales() {
    scale_ = ways_.capacities();
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p)
      scale_[static_cast<std::size_t>(ways_.row_of(p))] =
          ways_.pairs()[p].slope * targets_.unit + ways_.pairs()[p].fixed;
    for (double& scale : scale_) scale = scale > 0.0 ? unit_ / scale : 1.0;
  }

  [[nodiscard]] LinearProgram asked() {
    find_scales();
    LinearProgram program;
    program.add_column({0.0, kLpInfinity, 1.0});
    program.rows.assign(static_cast<std::size_t>(ways_.row_count()), {});
    std::vector<double> left = ways_.capacities();
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p) {
      const UnicastPair& pair = ways_.pairs()[p];
      const double slope = pair.slope * targets_.unit / unit_;
      // What goes by other ways is no more than all, and all of it where there is no link.
      const double fixed = -pair.fixed / unit_;
      program.rows[static_cast<std::size_t>(ways_.row_of(p))] = {fixed, pair.link >= 0 ? kLpInfinity : fixed};
      program.add_entry(ways_.row_of(p), 0, slope);
      if (pair.link < 0) continue;
      ways_.each_row(pair.link, [&](int row) {
        program.add_entry(row, 0, slope);
        left[static_cast<std::size_t>(row)] -= pair.fixed;
      });
    }
    for (int row = 0; row < ways_.row_count(); ++row) {
      const bool is_pair = row >= ways_.row_of(0) && row < ways_.row_of(ways_.pairs().size());
      if (!is_pair)
        program.rows[static_cast<std::size_t>(row)].upper = left[static_cast<std::size_t>(row)] / unit_;
    }
    for (LinearProgram::Entry& entry : program.entries)
      entry.value *= scale_[static_cast<std::size_t>(entry.row)];
    for (int row = 0; row < ways_.row_count(); ++row) {
      program.rows[static_cast<std::size_t>(row)].lower *= scale_[static_cast<std::size_t>(row)];
      program.rows[static_cast<std::size_t>(row)].upper *= scale_[static_cast<std::size_t>(row)];
    }
    return program;
  }

  [[nodiscard]] std::vector<IncrementalProgram::Term> terms_of(const UnicastWay& way) const {
    std::map<int, double> terms;
    for (const int link : way.links) ways_.each_row(link, [&](int row) { terms[row] += 1.0; });
    const UnicastPair& pair = ways_.pairs()[way.pair];
    if (pair.link >= 0) ways_.each_row(pair.link, [&](int row) { terms[row] -= 1.0; });
    terms[ways_.row_of(way.pair)] -= 1.0;
    std::vector<IncrementalProgram::Term> out;
    for (const auto& [row, value] : terms) {
      if (value != 0.0) out.push_back({row, value * scale_[static_cast<std::size_t>(row)]});
    }
    return out;
  }

  // Rates that were found to fit may not by a solver's tolerance: then those that are fixed get a little
  // less.
  Result<Solution> solve_level() {
    Result<Solution> solution = solve_with_ways();
    for (double slack = kSlack; slack < kMostSlack; slack *= 10.0) {
      if (solution.status().code() != StatusCode::kFailedPrecondition) break;
      basis_ = {};
      for (double& rate : targets_.rate) rate *= 1.0 - slack;
      ways_.sum_pairs(targets_);
      solution = solve_with_ways();
    }
    return solution;
  }

  Result<Solution> solve_with_ways() {
    IncrementalProgram program = program_from_last(asked());
    for (int round = 0; round < kMaxUnicastRounds; ++round) {
      look_at_budget();
      if (instance_.is_late()) return deadline_exceeded("unicasts: no optimum in time");
      SQUARE_ASSIGN_OR_RETURN(Solution solution, program.solve());
      read_duals(solution);
      const std::size_t before = ways_.ways().size();
      price(solution);
      if (ways_.ways().size() == before) {
        basis_ = program.basis();
        return solution;
      }
      for (std::size_t k = before; k < ways_.ways().size(); ++k)
        program.add_column({}, terms_of(ways_.ways()[k]));
    }
    return resource_exhausted("unicasts: no optimum after as many rounds as are allowed");
  }

  // With all ways that there are, from where the last one ended.
  IncrementalProgram program_from_last(LinearProgram made, double cost_of_link = 0.0) {
    for (const UnicastWay& way : ways_.ways()) {
      const int column =
          made.add_column({0.0, kLpInfinity, cost_of_link * static_cast<double>(way.links.size())});
      for (const IncrementalProgram::Term& term : terms_of(way)) made.add_entry(term.row, column, term.value);
    }
    return IncrementalProgram(std::move(made), std::move(basis_));
  }

  [[nodiscard]] double dual(const Solution& solution, int row) const {
    return solution.row_duals[static_cast<std::size_t>(row)] * scale_[static_cast<std::size_t>(row)];
  }

  void read_duals(const Solution& solution) {
    const auto of = [&](int row) { return row < 0 ? 0.0 : std::max(dual(solution, row), 0.0); };
    duals_ = {};
    for (std::size_t e = 0; e < instance_.link_count(); ++e) duals_.link.push_back(of(static_cast<int>(e)));
    for (std::size_t v = 0; v < instance_.node_count(); ++v) {
      duals_.egress.push_back(of(ways_.row_of_egress(v)));
      duals_.ingress.push_back(of(ways_.row_of_ingress(v)));
    }
    const std::vector<double> cost = duals_.link_cost(instance_);
    arc_cost_.clear();
    for (const int link : graph_.link) arc_cost_.push_back(cost[static_cast<std::size_t>(link)]);
  }

  // Adds the shortest way of each pair that pays more for what it has.
  void price(const Solution& solution) {
    const std::vector<double> cost = duals_.link_cost(instance_);
    distance_.assign(ways_.pairs().size(), 0.0);
    from_.clear();
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p) {
      const UnicastPair& pair = ways_.pairs()[p];
      if (!from_.contains(pair.from)) {
        look_at_budget();
        from_.emplace(pair.from, shortest_from(graph_.graph, {pair.from}, arc_cost_));
      }
      const Distances& from = from_.at(pair.from);
      distance_[p] = from.distance[static_cast<std::size_t>(pair.to)];
      // Less of it goes straight, and its own row has a price too: what a way more is worth.
      const double straight = pair.link >= 0 ? cost[static_cast<std::size_t>(pair.link)] : 0.0;
      const double paid = straight + dual(solution, ways_.row_of(p));
      if (distance_[p] >= paid * (1.0 - kShorter)) continue;
      ways_.add_way(p, from);
      if (pair.link >= 0) ways_.add_detours(p, paid * (1.0 - kShorter), arc_cost_);
    }
  }

  [[nodiscard]] std::vector<double> binding() const {
    std::vector<double> parts(instance_.groups.size(), 0.0);
    double sum = 0.0;
    for (std::size_t c = 0; c < parts.size(); ++c) {
      if (targets_.kind[c] != Targets::Kind::kActive) continue;
      const Alternative& only = instance_.groups[c].alternatives.front();
      for (std::size_t k = 0; k < only.demands.size(); ++k)
        parts[c] += targets_.weight[c] * only.fractions[k] * distance_[ways_.pair_of(only.demands[k])];
      sum += parts[c];
    }
    for (double& part : parts) part /= sum;
    return parts;
  }

  // Everything nearer to the source than the destination is on its side of the cuts between.
  [[nodiscard]] Proof proof_by_distances() const {
    Proof proof;
    proof.duals = duals_;
    proof.packings.resize(instance_.demands.size());
    const double least = kNoDistance * *std::ranges::max_element(distance_);
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p) {
      if (distance_[p] <= least) continue;
      const CutPacking packing = packing_of(p, least);
      for (const auto& [demand, fraction] : ways_.pairs()[p].demands) proof.packings[demand] = packing;
    }
    proof.bound = proven_bound(instance_, targets_, proof);
    return proof;
  }

  [[nodiscard]] CutPacking packing_of(std::size_t p, double least) const {
    std::vector<std::pair<double, int>> order;  // farthest first
    const Distances& from = from_.at(ways_.pairs()[p].from);
    for (int v = 0; v < graph_.graph.node_count(); ++v) {
      const double distance = std::min(from.distance[static_cast<std::size_t>(v)], distance_[p]);
      if (distance > least) order.emplace_back(distance, v);
    }
    std::ranges::sort(order, std::greater<>());
    CutPacking packing;
    std::vector<int> far_side;
    for (std::size_t k = 0; k < order.size(); ++k) {
      far_side.push_back(order[k].second);
      const double next = k + 1 < order.size() ? order[k + 1].first : 0.0;
      if (order[k].first - next <= least) continue;
      CutPacking::Cut& cut = packing.cuts.emplace_back(CutPacking::Cut{far_side, order[k].first - next});
      std::ranges::sort(cut.far_side);
      packing.length += cut.length;
    }
    return packing;
  }

  // All rates are fixed now: the least that goes round; what the last level found is as good otherwise.
  void carry_with_little_traffic(Solution solution, UnicastsAnswer& answer) {
    ways_.sum_pairs(targets_, kSlack);
    LinearProgram least = asked();
    least.sense = LinearProgram::Sense::kMinimise;
    least.columns[0] = {0.0, 0.0, 0.0};
    IncrementalProgram program = program_from_last(std::move(least), 1.0);
    if (Result<Solution> better = program.solve(); better.is_ok()) solution = std::move(better).value();
    std::vector<std::vector<std::pair<std::vector<int>, double>>> flows(ways_.pairs().size());
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p) {
      if (ways_.pairs()[p].link >= 0) flows[p].push_back({{ways_.pairs()[p].link}, ways_.pairs()[p].fixed});
    }
    for (std::size_t k = 0; k < ways_.ways().size(); ++k) {
      const double bps = solution.primal[1 + k] * unit_;
      if (bps <= 0.0) continue;
      if (ways_.pairs()[ways_.ways()[k].pair].link >= 0) flows[ways_.ways()[k].pair].front().second -= bps;
      flows[ways_.ways()[k].pair].emplace_back(ways_.ways()[k].links, bps);
    }
    ColumnPool pool(instance_.demands.size());
    std::vector<double> column_rate;
    for (std::size_t p = 0; p < ways_.pairs().size(); ++p)
      share_out(p, flows[p], answer.rate, pool, column_rate);
    answer.carried = carry_as_is(instance_, pool, column_rate, answer.rate);
  }

  // One demand after the other takes what is left of one flow after the other.
  void share_out(std::size_t p, std::vector<std::pair<std::vector<int>, double>>& flows,
                 const std::vector<double>& rate, ColumnPool& pool, std::vector<double>& column_rate) const {
    std::ranges::sort(flows, std::greater<>(), &std::pair<std::vector<int>, double>::second);
    std::size_t next = 0;
    for (const auto& [demand, fraction] : ways_.pairs()[p].demands) {
      double wanted = fraction * rate[group_of_[demand]];
      const double noise = kSlack * wanted;
      while (wanted > noise && next < flows.size()) {
        const double taken = std::min(wanted, flows[next].second);
        if (taken > noise) {
          pool.add({demand, flows[next].first, {}, {}, {}});
          column_rate.push_back(taken);
        }
        wanted -= taken;
        flows[next].second -= taken;
        if (flows[next].second <= noise) ++next;
      }
    }
  }

  const Instance& instance_;
  const DemandGraph& graph_;
  Targets targets_;
  double unit_ = 1.0;                  // bits per second of the program's one
  std::vector<std::size_t> group_of_;  // by demand
  UnicastWays ways_;
  std::vector<double> scale_;  // by row
  Basis basis_;
  // Of the last program.
  Duals duals_;
  std::vector<double> arc_cost_;
  std::vector<double> distance_;   // by pair
  std::map<int, Distances> from_;  // by source
};

}  // namespace

Result<std::optional<UnicastsAnswer>> plan_unicasts(const Instance& instance) {
  if (!are_alike(instance)) return std::optional<UnicastsAnswer>();
  SQUARE_ASSIGN_OR_RETURN(UnicastsAnswer answer, Unicasts(instance).run());
  return std::optional(std::move(answer));
}

}  // namespace square::planning
