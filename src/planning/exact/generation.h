// Column generation: the optimum over all trees, by a master program over a few of them and
// the cheapest tree under its duals (Dantzig and Wolfe, 1960; Ford and Fulkerson, 1958).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planning/exact/master.h"
#include "planning/exact/relaxation.h"
#include "planning/exact/tree_pricer.h"
#include "square/clock.h"

namespace square::planning {

struct GenerationOptions {
  double gap = kDefaultGap;           // stop within this of the bound, relative
  std::optional<TimePoint> deadline;  // stop there in any case
  bool coded = false;                 // coded subgraphs too, not only trees
  bool grow = true;                   // no: only columns that are in the pool
};

struct GenerationAnswer {
  MasterAnswer master;
  // The duals with the best bound, and the bound on the objective by trees (or by coded
  // subgraphs): from above for t, from below for a cost.
  Duals duals;
  double bound = 0.0;
  std::vector<double> demand_cost;  // under the duals: the cheapest tree (or coded subgraph)
  // By group, of an active one what its rate costs under the duals, of a sum of 1: where that is positive,
  // the level holds it. Not by the master's own duals, which need not be the optimum's when it stops.
  std::vector<double> binding;
  bool late = false;  // the deadline came first
  Basis basis;
};

// Keeps its columns, and a pricer for each demand, from one program to the next.
// Thread-compatible. The instance must outlive it.
class Generation {
 public:
  Generation(const Instance& instance, const GenerationOptions& options);

  // Trees by multiplicative weights (Garg and Koenemann, 2007) for the groups that are not
  // absent, so that the first master is nearly right. Returns the t that they reach
  // together, which is positive; 0 if some demand has no tree.
  double seed(const Targets& targets);
  // The same where some demands have trees: these go by their own, and only the others get
  // new ones.
  double seed_missing(const Targets& targets);

  // The optimum for the targets. Stops early when t reaches `enough`, and at the deadline with
  // the last master that was solved. Errors: as Master::solve(), DEADLINE_EXCEEDED if none was;
  // RESOURCE_EXHAUSTED past kMaxRounds.
  Result<GenerationAnswer> run(const Targets& targets, const Basis& start = {},
                               std::optional<double> enough = std::nullopt);

  // What the trees of the last seed() carry together: by column of the pool, bits per second.
  [[nodiscard]] const std::vector<double>& seeded() const { return seeded_; }
  // The lengths that it ended with; or the best duals of the last program.
  [[nodiscard]] const std::optional<Duals>& centre() const { return centre_; }

  // Length under the cost of links: the most that is proven by cuts.
  CutPacking packing(std::size_t demand, const std::vector<double>& link_cost);
  // Exactly what the flow relaxation says; slower. Errors: as steiner_relaxation().
  Result<CutPacking> exact_packing(std::size_t demand, const std::vector<double>& link_cost);

  [[nodiscard]] const Instance& instance() const { return instance_; }
  [[nodiscard]] ColumnPool& pool() { return pool_; }
  [[nodiscard]] const ColumnPool& pool() const { return pool_; }
  [[nodiscard]] const GenerationOptions& options() const { return options_; }

  static constexpr int kMaxRounds = 5'000;

 private:
  class Run;
  class Seeding;

  struct Priced {
    Column column;
    double cost = 0.0;
    double at_least = 0.0;  // what any column costs
  };
  Result<std::optional<Priced>> price(std::size_t demand, const std::vector<double>& link_cost);
  // A column that is cheap now and found quickly; of a demand with redundancy its code.
  std::optional<Column> good(std::size_t demand, const std::vector<double>& link_cost);
  [[nodiscard]] Result<Relaxation> relaxation(std::size_t demand, const std::vector<double>& link_cost) const;

  const Instance& instance_;
  GenerationOptions options_;
  ColumnPool pool_;
  std::vector<TreePricer> pricers_;  // by demand
  // The best duals of the program before, or the lengths that the seeds ended with: where the
  // next program's duals are likely to be.
  std::optional<Duals> centre_;
  std::vector<double> seeded_;
};

// sum over active groups of w_c D_c, and over fixed ones of rate_c D_c, where D_c is the
// least that a bit per second of the group costs, given that of each demand.
struct GroupCosts {
  double active = 0.0;
  double fixed = 0.0;
};
double group_cost(const Group& group, const std::vector<double>& demand_cost);
GroupCosts group_costs(const Instance& instance, const Targets& targets,
                       const std::vector<double>& demand_cost);

}  // namespace square::planning
