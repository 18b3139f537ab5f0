#include "planning/exact/master.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/spending.h"

namespace square::planning {

using Kind = Targets::Kind;

Targets active_targets(const Instance& instance) {
  Targets targets;
  for (const Group& group : instance.groups) {
    targets.kind.push_back(group.alternatives.empty() ? Kind::kAbsent : Kind::kActive);
    targets.weight.push_back(group.weight);
  }
  targets.rate.assign(instance.groups.size(), 0.0);
  return targets;
}

std::vector<std::size_t> stop_binding(const std::vector<double>& binding, double level, Targets& targets) {
  constexpr double kBinding = 1e-4;
  double largest = 0.0;
  for (std::size_t c = 0; c < binding.size(); ++c) {
    if (targets.kind[c] == Kind::kActive) largest = std::max(largest, binding[c]);
  }
  std::vector<std::size_t> stopped;
  for (std::size_t c = 0; c < binding.size(); ++c) {
    if (targets.kind[c] != Kind::kActive || binding[c] < std::min(kBinding, largest)) continue;
    targets.kind[c] = Kind::kFixed;
    targets.rate[c] = targets.weight[c] * level;
    stopped.push_back(c);
  }
  return stopped;
}

std::vector<double> Duals::link_cost(const Instance& instance) const {
  std::vector<double> cost(instance.link_count());
  for (std::size_t e = 0; e < cost.size(); ++e) {
    cost[e] = link[e] + egress[instance.tail[e].index()] + ingress[instance.head[e].index()] +
              budget * instance.price[e];
  }
  return cost;
}

double Duals::worth(const Instance& instance) const {
  double sum = budget * instance.budget_usd_per_hour.value_or(0.0);
  for (std::size_t e = 0; e < link.size(); ++e) sum += link[e] * instance.network.capacity_bps[e];
  for (std::size_t v = 0; v < egress.size(); ++v) {
    if (egress[v] > 0.0) sum += egress[v] * instance.network.egress_bps[v];
    if (ingress[v] > 0.0) sum += ingress[v] * instance.network.ingress_bps[v];
  }
  return sum;
}

Master::Master(const Instance& instance, const ColumnPool& pool, Targets targets, Basis start)
    : instance_(instance),
      pool_(pool),
      layout_(instance),
      targets_(std::move(targets)),
      program_(make_program(), std::move(start)) {}

LinearProgram Master::make_program() {
  unit_.assign(instance_.demands.size(), 0.0);
  for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
    if (targets_.kind[c] == Kind::kAbsent) continue;
    const double rate =
        targets_.kind[c] == Kind::kActive ? targets_.weight[c] * targets_.unit : targets_.rate[c];
    for (const Alternative& alternative : instance_.groups[c].alternatives) {
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        unit_[alternative.demands[k]] = alternative.fractions[k] * rate;
      }
    }
  }
  LinearProgram program;
  const bool levels = targets_.link_cost.empty();
  program.sense = levels ? LinearProgram::Sense::kMaximise : LinearProgram::Sense::kMinimise;
  program.add_column({0, kLpInfinity, levels ? 1.0 : 0.0});
  for (int j = 1; j < layout_.first_tree_column; ++j) program.add_column({0, kLpInfinity, 0.0});
  program.rows.assign(static_cast<std::size_t>(layout_.rows), {-kLpInfinity, 1.0});
  add_group_rows(program);
  // Costs of about one: the dearest group at the dearest link.
  double largest = 0.0;
  for (const double cost : targets_.link_cost) largest = std::max(largest, cost);
  double rate = 0.0;
  for (const double unit : unit_) rate = std::max(rate, unit);
  if (largest > 0.0 && rate > 0.0) cost_unit_ = largest * rate;
  return program;
}

void Master::add_group_rows(LinearProgram& program) const {
  constexpr int kLevelColumn = 0;
  for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
    const std::vector<Alternative>& alternatives = instance_.groups[c].alternatives;
    const bool fixed = targets_.kind[c] == Kind::kFixed;
    const LinearProgram::Row asked{fixed ? 1.0 : 0.0, fixed && targets_.exactly ? 1.0 : kLpInfinity};
    const auto ask = [&](int row) {
      program.rows[static_cast<std::size_t>(row)] = asked;
      if (targets_.kind[c] == Kind::kActive) program.add_entry(row, kLevelColumn, -1.0);
    };
    const bool several = alternatives.size() > 1;
    if (several) ask(layout_.group_row[c]);
    for (std::size_t a = 0; a < alternatives.size(); ++a) {
      if (several) program.add_entry(layout_.group_row[c], layout_.share_column[c][a], 1.0);
      for (const std::size_t i : alternatives[a].demands) {
        const int row = layout_.demand_row[i];
        if (!several) {
          ask(row);
          continue;
        }
        program.rows[static_cast<std::size_t>(row)] = {0.0, targets_.exactly ? 0.0 : kLpInfinity};
        program.add_entry(row, layout_.share_column[c][a], -1.0);
      }
    }
  }
}

void Master::add_column(const Column& column) {
  look_at_budget();
  const double unit = unit_[column.demand];
  if (unit <= 0.0) {  // its group is absent
    program_.add_column({0.0, 0.0, 0.0}, {});
    return;
  }
  std::vector<IncrementalProgram::Term> terms;
  double price = 0.0;
  for (std::size_t k = 0; k < column.links.size(); ++k) {
    const auto e = static_cast<std::size_t>(column.links[k]);
    const auto tail = instance_.tail[e].index();
    const auto head = instance_.head[e].index();
    const double load = unit * column.usage_at(k);
    terms.push_back({static_cast<int>(e), load / instance_.network.capacity_bps[e]});
    if (const int row = layout_.egress_row[tail]; row >= 0) {
      terms.push_back({row, load / instance_.network.egress_bps[tail]});
    }
    if (const int row = layout_.ingress_row[head]; row >= 0) {
      terms.push_back({row, load / instance_.network.ingress_bps[head]});
    }
    price += load * instance_.price[e];
  }
  if (layout_.budget_row >= 0 && price > 0.0) {
    terms.push_back({layout_.budget_row, price / *instance_.budget_usd_per_hour});
  }
  terms.push_back({layout_.demand_row[column.demand], 1.0});
  const double cost = targets_.link_cost.empty() ? 0.0 : unit * column.cost(targets_.link_cost) / cost_unit_;
  program_.add_column({0.0, kLpInfinity, cost}, terms);
}

Result<MasterAnswer> Master::solve(double max_seconds) {
  for (; added_ < pool_.size(); ++added_) add_column(pool_.columns()[added_]);
  SQUARE_ASSIGN_OR_RETURN(const Solution solution, program_.solve(max_seconds));

  MasterAnswer answer;
  answer.objective = solution.objective * (targets_.link_cost.empty() ? targets_.unit : cost_unit_);
  for (std::size_t e = 0; e < instance_.link_count(); ++e) {
    answer.duals.link.push_back(dual(solution, static_cast<int>(e), instance_.network.capacity_bps[e]));
  }
  for (std::size_t v = 0; v < instance_.node_count(); ++v) {
    answer.duals.egress.push_back(dual(solution, layout_.egress_row[v], instance_.network.egress_bps[v]));
    answer.duals.ingress.push_back(dual(solution, layout_.ingress_row[v], instance_.network.ingress_bps[v]));
  }
  answer.duals.budget = dual(solution, layout_.budget_row, instance_.budget_usd_per_hour.value_or(1.0));
  for (std::size_t i = 0; i < unit_.size(); ++i) {
    answer.demand.push_back(need(solution, layout_.demand_row[i], unit_[i]));
  }
  for (std::size_t k = 0; k < pool_.size(); ++k) {
    const double rate = solution.primal[static_cast<std::size_t>(layout_.first_tree_column) + k];
    answer.rate.push_back(std::max(rate, 0.0) * unit_[pool_.columns()[k].demand]);
  }
  read_shares(solution, answer);
  return answer;
}

void Master::read_shares(const Solution& solution, MasterAnswer& answer) const {
  for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
    const std::vector<Alternative>& alternatives = instance_.groups[c].alternatives;
    std::vector<double>& share = answer.share.emplace_back();
    if (alternatives.size() < 2) continue;
    const double unit = unit_[alternatives[0].demands[0]] / alternatives[0].fractions[0];
    for (const int column : layout_.share_column[c]) {
      share.push_back(std::max(solution.primal[static_cast<std::size_t>(column)], 0.0) * unit);
    }
  }
}

double Master::dual(const Solution& solution, int row, double size) const {
  if (row < 0 || size <= 0.0) return 0.0;
  const bool levels = targets_.link_cost.empty();
  const double value = solution.row_duals[static_cast<std::size_t>(row)];
  return std::max(levels ? value : -value, 0.0) * (levels ? targets_.unit : cost_unit_) / size;
}

double Master::need(const Solution& solution, int row, double size) const {
  if (row < 0 || size <= 0.0) return 0.0;
  const bool levels = targets_.link_cost.empty();
  const double value = solution.row_duals[static_cast<std::size_t>(row)];
  return std::max(levels ? -value : value, 0.0) * (levels ? targets_.unit : cost_unit_) / size;
}

}  // namespace square::planning
