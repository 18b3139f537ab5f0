// From columns with rates to the streams of a plan.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "planning/exact/generation.h"
#include "square/plan.h"

namespace square::planning {

// Trees with rates, by demand; and codes, which use their links in part.
struct Carried {
  struct Tree {
    std::vector<int> links;  // each after the one that feeds it, seen from the root
    double rate = 0.0;
    std::vector<double> usage{};  // of a code, by position in `links`
    std::shared_ptr<const CodeDesign> code{};

    // What it puts on a link.
    [[nodiscard]] double load(std::size_t position) const {
      return usage.empty() ? rate : rate * usage[position];
    }
  };
  std::vector<std::vector<Tree>> trees;
};

// Of all trees of a demand.
double rate_of(const Carried& carried, std::size_t demand);

// Trees and codes of the pool, which holds no other columns, that carry the groups' rates with the least
// traffic on links, or, with a price of links, at the least price: a basic solution, so that no more trees
// are used than there are resources that are used up and demands. Capacities and limits are kept exactly, so
// rates may be lower by a solver's tolerance. `basis`: where to start, and on return where it ended. Errors:
// as Master::solve().
Result<Carried> carry(const Instance& instance, const ColumnPool& pool, const std::vector<double>& rate,
                      const std::vector<double>& link_price = {}, Basis* basis = nullptr);

// What columns of the pool carry, shrunk until it fits and no group has more than its rate:
// without a program.
Carried carry_as_is(const Instance& instance, const ColumnPool& pool, const std::vector<double>& column_rate,
                    const std::vector<double>& rate);

// Lowers the rates of columns until capacities and limits are kept exactly. Returns what is left by demand.
std::vector<double> clip(const Instance& instance, std::vector<std::pair<Column, double>>& flows);

// By demand: what it carries of its group's rate, or, with several alternatives, of its alternative's share.
std::vector<double> demand_rates(const Instance& instance, const std::vector<double>& rate,
                                 const std::vector<std::vector<double>>& share);

// Of each group with several alternatives, what each carries.
std::vector<std::vector<double>> shares_of(const Instance& instance, const Carried& carried);

// Writes a demand's streams and codes into its session: in the direction of data, those of a reduce in the
// order of additions.
void write_streams(const Instance& instance, const Carried& carried, std::size_t demand,
                   PlanSession& session);

}  // namespace square::planning
