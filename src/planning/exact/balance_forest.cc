#include "planning/exact/balance_forest.h"

#include <algorithm>
#include <limits>

#include "base/spending.h"

namespace square::planning {
namespace {

// Nodes come first, then units; an edge is a part.
class Forest {
 public:
  Forest(const std::vector<BalanceUnit>& units, std::size_t node_count, BalanceParts& parts)
      : units_(units),
        node_count_(node_count),
        parts_(parts),
        edges_of_(node_count + units.size()),
        entry_(edges_of_.size()) {}

  void run() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      look_at_budget();
      const auto is_part = [](double part) { return part > 0.0; };
      if (std::ranges::count_if(parts_[u], is_part) < 2) continue;
      for (std::size_t k = 0; k < parts_[u].size(); ++k) {
        if (parts_[u][k] > 0.0) add({u, k});
      }
    }
  }

 private:
  struct Edge {
    std::size_t unit;
    std::size_t position;
    friend bool operator==(const Edge&, const Edge&) = default;
  };
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] std::size_t unit_end(const Edge& edge) const { return node_count_ + edge.unit; }
  [[nodiscard]] std::size_t node_end(const Edge& edge) const {
    return static_cast<std::size_t>(units_[edge.unit].nodes[edge.position]);
  }
  [[nodiscard]] double& part(const Edge& edge) const { return parts_[edge.unit][edge.position]; }
  [[nodiscard]] double room(const Edge& edge) const {
    const BalanceUnit& unit = units_[edge.unit];
    return std::max(0.0, (unit.most.empty() ? unit.amount : unit.most[edge.position]) - part(edge));
  }

  void add(const Edge& edge) {
    std::vector<Edge> cycle = way_between(node_end(edge), unit_end(edge));
    if (!cycle.empty()) {
      cycle.push_back(edge);  // every other edge gets what those between give
      const Edge out = turn(cycle);
      if (out == edge) return;
      remove(out);
    }
    edges_of_[unit_end(edge)].push_back(edge);
    edges_of_[node_end(edge)].push_back(edge);
  }

  void remove(const Edge& edge) {
    std::erase(edges_of_[unit_end(edge)], edge);
    std::erase(edges_of_[node_end(edge)], edge);
  }

  // The edges on the way, which is the only one; none where there is none.
  std::vector<Edge> way_between(std::size_t from, std::size_t to) {
    std::ranges::fill(entry_, Edge{kNone, 0});
    queue_.assign(1, from);
    for (std::size_t next = 0; next < queue_.size() && entry_[to].unit == kNone; ++next) {
      const std::size_t here = queue_[next];
      for (const Edge& edge : edges_of_[here]) {
        const std::size_t there = here < node_count_ ? unit_end(edge) : node_end(edge);
        if (there == from || entry_[there].unit != kNone) continue;
        entry_[there] = edge;
        queue_.push_back(there);
      }
    }
    std::vector<Edge> way;
    if (entry_[to].unit == kNone) return way;
    for (std::size_t here = to; here != from;) {
      way.push_back(entry_[here]);
      here = here < node_count_ ? unit_end(entry_[here]) : node_end(entry_[here]);
    }
    return way;
  }

  // How far a cycle can be turned, and the edge that is empty, or full, then.
  struct Turn {
    double amount = std::numeric_limits<double>::infinity();
    Edge edge{};
    bool empties = false;
  };
  [[nodiscard]] Turn most_of(const std::vector<Edge>& cycle, bool first_gives) const {
    Turn turn;
    for (std::size_t k = 0; k < cycle.size(); ++k) {
      const bool gives = (k % 2 == 0) == first_gives;
      const double amount = gives ? part(cycle[k]) : room(cycle[k]);
      if (amount < turn.amount || (amount == turn.amount && gives)) turn = {amount, cycle[k], gives};
    }
    return turn;
  }

  // Returns the edge that is out of it now.
  Edge turn(const std::vector<Edge>& cycle) {
    const Turn one = most_of(cycle, true);
    const Turn other = most_of(cycle, false);
    const bool first_gives = one.empties == other.empties ? one.amount <= other.amount : one.empties;
    const Turn& best = first_gives ? one : other;
    for (std::size_t k = 0; k < cycle.size(); ++k)
      part(cycle[k]) += (k % 2 == 0) == first_gives ? -best.amount : best.amount;
    if (best.empties) part(best.edge) = 0.0;
    return best.edge;
  }

  const std::vector<BalanceUnit>& units_;
  const std::size_t node_count_;
  BalanceParts& parts_;
  std::vector<std::vector<Edge>> edges_of_;  // by end
  std::vector<Edge> entry_;                  // by end, of a search
  std::vector<std::size_t> queue_;
};

}  // namespace

void cut_cycles(const std::vector<BalanceUnit>& units, std::size_t node_count, BalanceParts& parts) {
  Forest(units, node_count, parts).run();
}

}  // namespace square::planning
