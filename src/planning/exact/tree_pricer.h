// The cheapest tree of a demand for given costs of links.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planning/exact/cut_packing.h"
#include "planning/exact/instance.h"

namespace square::planning {

struct PricedTree {
  std::vector<int> links;  // each after the one that feeds it, seen from the root
  double cost = 0.0;
  bool is_cheapest = false;  // no tree of the demand costs less
};

// One demand's; keeps its memory between calls. Thread-compatible.
class TreePricer {
 public:
  explicit TreePricer(const Demand& demand);
  TreePricer(TreePricer&&) noexcept;
  ~TreePricer();

  // The cheapest tree where that can be computed: for one terminal, for all nodes, and for
  // few terminals; a good one otherwise. Costs by link, at least 0. Nothing where a latency
  // bound left no tree that was found.
  std::optional<PricedTree> cheapest(const std::vector<double>& link_cost);
  // A good one, quickly.
  std::optional<PricedTree> good(const std::vector<double>& link_cost);

  // What every tree, and every coded subgraph, costs at least, with its proof: node sets
  // are as PlanPacking's.
  CutPacking bound(const std::vector<double>& link_cost);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace square::planning
