#include "planning/exact/spanning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/max_flow.h"

namespace square::planning {
namespace {

// A cut that would lower a level by less than this part of it is the one already there, rounded.
constexpr double kSameLevel = 1e-13;
// What a sum must pass another by, as a part of it, to be greater whatever the rounding.
constexpr double kSurely = 1e-12;
// Rates found at earlier levels may pass a cut by this part of its capacity, no more.
constexpr double kOverfull = 1e-9;
// Each cut of one node lowers the level and leaves more of the active roots inside (Dinkelbach), so there are
// few: this is far more than was ever seen.
constexpr int kMaxCutsPerNode = 1000;

using Sum = long double;  // frozen rates may nearly cancel a capacity

// At most one arc from a node to another, and only those that carry something.
struct SimpleGraph {
  Digraph graph;
  std::vector<double> capacity;

  SimpleGraph(const Digraph& given, const std::vector<double>& given_capacity) : graph(given.node_count()) {
    std::vector<int> arc_to(given.node_count(), -1);
    for (int v = 0; v < given.node_count(); ++v) {
      for (const int arc : given.out[v]) {
        const int to = given.arcs[arc].to;
        if (to == v || given_capacity[arc] <= 0.0) continue;
        if (arc_to[to] < 0) {
          arc_to[to] = graph.add_arc(v, to);
          capacity.push_back(0.0);
        }
        capacity[arc_to[to]] += given_capacity[arc];
      }
      for (const int arc : graph.out[v]) arc_to[graph.arcs[arc].to] = -1;
    }
  }
};

class Spanning {
 public:
  Spanning(SimpleGraph simple, const std::vector<SpanningGroup>& groups)
      : graph_(std::move(simple.graph)),
        capacity_(std::move(simple.capacity)),
        groups_(groups),
        nodes_(graph_.node_count()),
        flow_(graph_, capacity_),
        into_(nodes_, 0.0),
        frozen_(nodes_),
        slope_(nodes_),
        demand_(nodes_),
        from_safe_(nodes_),
        supply_(nodes_),
        is_safe_(nodes_),
        inside_(nodes_, false) {
    for (std::size_t e = 0; e < capacity_.size(); ++e) into_[graph_.arcs[e].to] += capacity_[e];
  }

  Result<SpanningAnswer> run() {
    const Phase phase("looking for the cuts that are full");
    std::vector<bool> active(groups_.size(), true);
    answer_.rate.assign(groups_.size(), 0.0);
    for (std::size_t left = groups_.size(); left > 0;) {
      sum_demands(active);
      SQUARE_RETURN_IF_ERROR(find_level());
      SpanningLevel& level = answer_.levels.emplace_back();
      level.level = level_;
      level.far_side = far_side_;
      std::sort(level.far_side.begin(), level.far_side.end());
      mark(far_side_, true);
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (!active[g] || !has_root_outside(groups_[g])) continue;
        active[g] = false;
        --left;
        answer_.rate[g] = groups_[g].weight * level_;
        level.groups.push_back(static_cast<int>(g));
      }
      mark(far_side_, false);
      SQUARE_CHECK(!level.groups.empty(), "a cut that limits no group cannot set a level");
    }
    return std::move(answer_);
  }

 private:
  void mark(const std::vector<int>& far_side, bool inside) {
    for (const int v : far_side) inside_[v] = inside;
  }

  [[nodiscard]] bool has_root_outside(const SpanningGroup& group) const {
    return std::any_of(group.roots.begin(), group.roots.end(),
                       [&](const auto& root) { return !inside_[root.first]; });
  }

  // At level t the roots at v send frozen_[v] + slope_[v] * t.
  void sum_demands(const std::vector<bool>& active) {
    std::fill(frozen_.begin(), frozen_.end(), 0.0);
    std::fill(slope_.begin(), slope_.end(), 0.0);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const auto& [root, fraction] : groups_[g].roots) {
        if (active[g]) {
          slope_[root] += fraction * groups_[g].weight;
        } else {
          frozen_[root] += fraction * answer_.rate[g];
        }
      }
    }
  }

  // Lowers level_ to the least that any set of nodes allows. A node is safe once no set that holds it would
  // lower the level, which only falls, so it stays safe. What remains are sets without any safe node: these
  // count as one source.
  Status find_level() {
    floor_ = answer_.levels.empty() ? 0.0 : answer_.levels.back().level;
    SQUARE_RETURN_IF_ERROR(start_from_single_nodes());
    flow_.open_all();
    std::fill(is_safe_.begin(), is_safe_.end(), false);
    std::fill(from_safe_.begin(), from_safe_.end(), 0.0);
    set_demands();
    // Sets that hold all active roots limit none: if there is but one, its node is safe from the start.
    const auto root_nodes =
        std::count_if(slope_.begin(), slope_.end(), [](double slope) { return slope > 0.0; });
    int node = first_root();
    if (root_nodes > 1) SQUARE_RETURN_IF_ERROR(make_safe(node));
    for (int safe = 1; safe < nodes_ && level_ > floor_; ++safe) {
      look_at_budget();
      count_as_safe(node);
      node = best_supplied();
      SQUARE_RETURN_IF_ERROR(make_safe(node));
    }
    return Status::ok();
  }

  // The least level of the sets of one node. Sums before and after it, because subtracting would round.
  Status start_from_single_nodes() {
    level_ = kUnreachable;
    std::vector<Sum> frozen_after(nodes_ + 1, 0.0);
    std::vector<Sum> slope_after(nodes_ + 1, 0.0);
    for (int v = nodes_ - 1; v >= 0; --v) {
      frozen_after[v] = frozen_after[v + 1] + frozen_[v];
      slope_after[v] = slope_after[v + 1] + slope_[v];
    }
    Sum frozen = 0.0;
    Sum slope = 0.0;
    for (int v = 0; v < nodes_; ++v) {
      SQUARE_ASSIGN_OR_RETURN(const double level,
                              level_of(into_[v], frozen + frozen_after[v + 1], slope + slope_after[v + 1]));
      if (level < level_) {
        level_ = level;
        far_side_ = {v};
      }
      frozen += frozen_[v];
      slope += slope_[v];
    }
    return Status::ok();
  }

  // The level at which roots outside that send `frozen` + `slope` * t fill `capacity`.
  [[nodiscard]] Result<double> level_of(Sum capacity, Sum frozen, Sum slope) const {
    if (slope <= 0.0) return kUnreachable;
    if (frozen + slope * floor_ > capacity * (1.0L + kOverfull)) {
      return internal_error(
          fmt::format("rates of earlier levels need {} where a cut carries {}; capacities or weights lie too "
                      "many decades apart",
                      static_cast<double>(frozen + slope * floor_), static_cast<double>(capacity)));
    }
    return std::max(floor_, static_cast<double>((capacity - frozen) / slope));
  }

  [[nodiscard]] Result<double> level_of(const std::vector<int>& far_side) {
    Sum capacity = 0.0;
    Sum frozen = 0.0;
    Sum slope = 0.0;
    mark(far_side, true);
    for (const int v : far_side) {
      for (const int arc : graph_.in[v]) {
        if (!inside_[graph_.arcs[arc].from]) capacity += capacity_[arc];
      }
    }
    for (int v = 0; v < nodes_; ++v) {
      if (inside_[v]) continue;
      frozen += frozen_[v];
      slope += slope_[v];
    }
    mark(far_side, false);
    return level_of(capacity, frozen, slope);
  }

  void set_demands() {
    total_ = 0.0;
    queue_.clear();
    for (int v = 0; v < nodes_; ++v) {
      demand_[v] = frozen_[v] + slope_[v] * level_;
      supply_[v] = demand_[v] + from_safe_[v];
      total_ += demand_[v];
      if (!is_safe_[v]) queue_.emplace_back(supply_[v], v);
    }
    std::make_heap(queue_.begin(), queue_.end());
  }

  [[nodiscard]] int first_root() const {
    int best = -1;
    for (int v = 0; v < nodes_; ++v) {
      if (slope_[v] > 0.0 && (best < 0 || into_[v] > into_[best])) best = v;
    }
    return best;
  }

  // Of the nodes that are not safe the one with most supply: the likeliest to be safe by that alone.
  int best_supplied() {
    while (is_safe_[queue_.front().second]) {
      std::pop_heap(queue_.begin(), queue_.end());
      queue_.pop_back();
    }
    return queue_.front().second;
  }

  void count_as_safe(int node) {
    is_safe_[node] = true;
    flow_.close(node);
    for (const int arc : graph_.out[node]) {
      const int to = graph_.arcs[arc].to;
      if (is_safe_[to]) continue;
      from_safe_[to] += capacity_[arc];
      supply_[to] = demand_[to] + from_safe_[to];
      queue_.emplace_back(supply_[to], to);
      std::push_heap(queue_.begin(), queue_.end());
    }
  }

  // Lowers the level until no set with `node` and without safe nodes would lower it further.
  Status make_safe(int node) {
    for (int cuts = 0; cuts < kMaxCutsPerNode && level_ > floor_; ++cuts) {
      const double enough = total_ * (1.0 + kSurely);
      if (reaches_in_two(node, enough) || flow_.run(supply_, node, enough) > enough) return Status::ok();
      SQUARE_ASSIGN_OR_RETURN(const double level, level_of(flow_.sink_side()));
      if (level >= level_ * (1.0 - kSameLevel)) return Status::ok();
      level_ = level;
      far_side_ = flow_.sink_side();
      set_demands();
    }
    if (level_ <= floor_) return Status::ok();
    return internal_error(
        fmt::format("a level still falls after {} cuts around node {}", kMaxCutsPerNode, node));
  }

  // Any set with `node` cuts its supply, and for each other node with an arc to it either that node's supply
  // or the arc. If that is enough, no flow is needed.
  [[nodiscard]] bool reaches_in_two(int node, double enough) const {
    double amount = supply_[node];
    for (auto arc = graph_.in[node].begin(); arc != graph_.in[node].end() && amount <= enough; ++arc) {
      const int from = graph_.arcs[*arc].from;
      if (from != node && !is_safe_[from]) amount += std::min(capacity_[*arc], supply_[from]);
    }
    return amount > enough;
  }

  const Digraph graph_;
  const std::vector<double> capacity_;  // by arc
  const std::vector<SpanningGroup>& groups_;
  const int nodes_;
  MaxFlow flow_;
  SpanningAnswer answer_;

  double level_ = 0.0;         // of the level in work: no cut met so far is overfull at it
  double floor_ = 0.0;         // the level before
  std::vector<int> far_side_;  // the cut that level_ fills
  double total_ = 0.0;         // of demand_

  // By node.
  std::vector<Sum> into_;          // capacity
  std::vector<double> frozen_;     // what roots of groups with a rate send
  std::vector<double> slope_;      // what roots of active groups send for each unit of level
  std::vector<double> demand_;     // both together at level_
  std::vector<double> from_safe_;  // capacity from safe nodes
  std::vector<double> supply_;     // demand_ + from_safe_
  std::vector<bool> is_safe_;
  std::vector<bool> inside_;  // scratch: a far side

  std::vector<std::pair<double, int>> queue_;  // heap of supply_ and node; may hold old ones, which were less
};

bool is_amount(double number) { return std::isfinite(number) && number >= 0.0; }

Status check(const Digraph& graph, const std::vector<double>& capacity,
             const std::vector<SpanningGroup>& groups) {
  if (graph.node_count() < 2) {
    return invalid_argument("a session needs another node to reach; give at least two");
  }
  if (capacity.size() != graph.arcs.size()) {
    return invalid_argument(
        fmt::format("{} capacities for {} arcs; give one for each", capacity.size(), graph.arcs.size()));
  }
  for (std::size_t e = 0; e < capacity.size(); ++e) {
    if (is_amount(capacity[e])) continue;
    return invalid_argument(
        fmt::format("arc {} has capacity {}; give a finite number, at least zero", e, capacity[e]));
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!is_amount(groups[g].weight) || groups[g].weight <= 0.0 || groups[g].roots.empty()) {
      return invalid_argument(fmt::format(
          "group {} has weight {} and {} roots; give a finite weight above zero and at least one root", g,
          groups[g].weight, groups[g].roots.size()));
    }
    for (const auto& [root, fraction] : groups[g].roots) {
      const double slope = fraction * groups[g].weight;
      if (root >= 0 && root < graph.node_count() && is_amount(slope) && slope > 0.0) continue;
      return invalid_argument(
          fmt::format("group {} has a root at node {} with fraction {}; give one of the {} nodes and a "
                      "fraction "
                      "that is finite and above zero, also times the weight",
                      g, root, fraction, graph.node_count()));
    }
  }
  return Status::ok();
}

}  // namespace

Result<SpanningAnswer> solve_spanning(const Digraph& graph, const std::vector<double>& capacity,
                                      const std::vector<SpanningGroup>& groups) {
  SQUARE_RETURN_IF_ERROR(check(graph, capacity, groups));
  return Spanning(SimpleGraph(graph, capacity), groups).run();
}

}  // namespace square::planning
