// The master program of the column generation: how much each known column carries.
//
// Every row and column is scaled by what it is about (a link by its capacity, a demand by
// the rate that it has or is about to have), so that a solver's absolute tolerances are
// relative ones, over many decades of capacities.
#pragma once

#include <vector>

#include "lp/solver.h"
#include "planning/exact/columns.h"
#include "planning/exact/master_layout.h"

namespace square::planning {

// What is asked of each group.
struct Targets {
  enum class Kind {
    kAbsent,  // carries nothing
    kActive,  // g >= w t, and t is maximised
    kFixed,   // g >= rate
  };
  std::vector<Kind> kind;
  std::vector<double> weight;  // of active groups
  std::vector<double> rate;    // of fixed groups, positive
  // About what t will be: the unit in which it is solved. Positive.
  double unit = 1.0;
  // Of links, US dollars an hour for a bit per second, to be minimised instead; every group
  // is fixed then. Empty: t is maximised.
  std::vector<double> link_cost;
  // Fixed groups have their rate and no more.
  bool exactly = false;
};

// Every group that sends is active, with its weight.
Targets active_targets(const Instance& instance);

// Of the active groups those stop, at level t, whose part of the duals binds: they are fixed at w t then, and
// returned. `binding` by group: what t loses, times the weight; over the active groups it sums to one. A
// group that should stop and has too small a part does so a level later, at the same t.
std::vector<std::size_t> stop_binding(const std::vector<double>& binding, double level, Targets& targets);

// Non-negative duals, per bit per second: what t (or the cost) gains with the resource.
struct Duals {
  std::vector<double> link;     // l(e)
  std::vector<double> egress;   // a(v), 0 where there is no limit
  std::vector<double> ingress;  // b(v)
  double budget = 0.0;          // per US dollar an hour

  // l(e) + a(tail) + b(head) + budget * price(e), by link.
  [[nodiscard]] std::vector<double> link_cost(const Instance& instance) const;
  // sum C l + sum egress a + sum ingress b + budget.
  [[nodiscard]] double worth(const Instance& instance) const;
};

struct MasterAnswer {
  double objective = 0.0;                  // t, or the cost
  std::vector<double> rate;                // by column of the pool
  std::vector<std::vector<double>> share;  // by group and alternative: its rate
  Duals duals;
  std::vector<double> demand;  // what a column of the demand may cost before it is of no use
};

// Thread-compatible. The instance and the pool must outlive it.
class Master {
 public:
  Master(const Instance& instance, const ColumnPool& pool, Targets targets, Basis start = {});

  // Solves with all columns that the pool has by now. Errors: FAILED_PRECONDITION if the
  // fixed rates cannot be had with them, DEADLINE_EXCEEDED after about so many seconds,
  // INTERNAL from the solver.
  Result<MasterAnswer> solve(double max_seconds = kLpInfinity);

  // Where the last solve() stopped: the start of a Master of the same instance.
  [[nodiscard]] Basis basis() const { return program_.basis(); }

 private:
  LinearProgram make_program();
  void add_group_rows(LinearProgram& program) const;
  void add_column(const Column& column);
  void read_shares(const Solution& solution, MasterAnswer& answer) const;
  // What a resource's dual, and what a demand's, is per bit per second.
  [[nodiscard]] double dual(const Solution& solution, int row, double size) const;
  [[nodiscard]] double need(const Solution& solution, int row, double size) const;

  const Instance& instance_;
  const ColumnPool& pool_;
  const MasterLayout layout_;
  Targets targets_;
  std::vector<double> unit_;  // by demand: bits per second of a unit of its columns
  std::size_t added_ = 0;     // of the pool's
  double cost_unit_ = 1.0;
  IncrementalProgram program_;
};

}  // namespace square::planning
