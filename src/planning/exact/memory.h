// What one plan leaves for the next: trees, and where each program ended.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lp/solver.h"
#include "planning/exact/columns.h"
#include "planning/exact/hub_memory.h"
#include "planning/exact/master_layout.h"

namespace square::planning {

// Thread-compatible.
class ExactMemory {
 public:
  // Renumbers everything for this overlay and forgets what is of no use in it: trees over
  // links that are there no more; all, when most capacities are others.
  void align(const Topology& topology);

  // Puts the trees of the instance's demands that its links still allow into the pool, which
  // must be empty, and remembers which is which for the calls below. Whether there is a last
  // plan. The instance is of the overlay that was aligned last.
  bool recall(const Instance& instance, ColumnPool& pool);
  // Where the program in which these collectives had stopped ended last time; empty if there
  // was none.
  [[nodiscard]] Basis level_start(const Instance& instance, const std::vector<CollectiveId>& stopped) const;
  [[nodiscard]] Basis carry_start(const Instance& instance) const;

  // Of plans by arithmetic.
  [[nodiscard]] HubMemory& hubs() { return hubs_; }

  // One program of the plan that was made.
  struct Program {
    std::vector<CollectiveId> stopped;
    Basis basis;
  };
  // Replaces everything. The pool holds trees only.
  void keep(const Instance& instance, const ColumnPool& pool, std::vector<Program> levels, Basis carry);

  // Trees that are kept for each demand, beside those that a program ended with.
  static constexpr std::size_t kSpareTrees = 4;

 private:
  // Reduce or not, root, terminals.
  using Key = std::tuple<bool, int, std::vector<int>>;
  static Key key_of(const Demand& demand);

  void forget();
  void move_to(const Topology& topology);
  [[nodiscard]] Basis translated(const Instance& instance, const Basis& basis) const;

  std::vector<std::string> nodes_;
  std::vector<std::pair<int, int>> links_;  // tail and head
  std::vector<double> capacity_;            // by link

  HubMemory hubs_;
  std::vector<Key> demands_;
  std::vector<CollectiveId> groups_;
  std::vector<Column> columns_;  // trees, by demand above
  std::optional<MasterLayout> layout_;
  std::vector<Program> levels_;
  Basis carry_;

  // Of the last recall(): positions in the instance and its pool, -1 where it is not there.
  std::vector<int> demand_at_;
  std::vector<int> group_at_;
  std::vector<int> column_at_;
  bool same_groups_ = false;
};

}  // namespace square::planning
