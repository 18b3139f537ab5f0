#include "planning/exact/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"
#include "planning/exact/balance_forest.h"

namespace square::planning {
namespace {

constexpr std::size_t kMostSteps = 20'000;
// A node has what it has room for when it differs by less than this part of all room.
constexpr double kSame = 1e-13;

class Balance {
 public:
  Balance(const std::vector<BalanceUnit>& units, const std::vector<double>& room, BalanceParts start)
      : units_(units), parts_(std::move(start)), over_(room.size()), entry_(room.size()) {
    for (std::size_t v = 0; v < room.size(); ++v) over_[v] = -room[v];
    for (const double one : room) slack_ += std::isfinite(one) ? kSame * one : 0.0;
    at_.resize(room.size());
    parts_.resize(units.size());
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (std::size_t k = 0; k < units[u].nodes.size(); ++k) at_[index(units[u].nodes[k])].push_back({u, k});
    }
    begin();
  }

  std::optional<BalanceParts> run() {
    for (std::size_t step = 0; step < kMostSteps; ++step) {
      if (std::ranges::none_of(over_, [&](double over) { return over > slack_; })) return std::move(parts_);
      const int end = find_way();
      if (end < 0) return std::nullopt;
      move_along(end);
    }
    return std::nullopt;
  }

 private:
  static constexpr int kUnseen = -2;
  static constexpr int kSource = -1;

  struct Place {
    std::size_t unit;
    std::size_t position;  // of the node in it
  };
  // How a search came to a node: from where, by what of which unit.
  struct Entry {
    int from = kUnseen;
    std::size_t unit = 0;
    std::size_t out = 0;
    std::size_t in = 0;
  };

  static std::size_t index(int node) { return static_cast<std::size_t>(node); }

  [[nodiscard]] double most(std::size_t unit, std::size_t position) const {
    const BalanceUnit& one = units_[unit];
    return one.most.empty() ? one.amount : one.most[position];
  }

  // Where the start has a part. Then the largest first, each whole to where most room is left.
  void begin() {
    std::vector<std::size_t> order;
    std::vector<double> left;  // by unit
    for (std::size_t u = 0; u < units_.size(); ++u) {
      look_at_budget();
      left.push_back(units_[u].amount);
      order.push_back(u);
      std::vector<double>& parts = parts_[u];
      const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
      if (parts.size() != units_[u].nodes.size() || !(sum > 0.0)) {
        parts.assign(units_[u].nodes.size(), 0.0);
        continue;
      }
      const double scale = units_[u].amount / sum;
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const double part = std::min({parts[k] * scale, most(u, k), left[u]});
        parts[k] = 0.0;
        put(u, k, part, left[u]);
      }
    }
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t u) { return left[u]; });
    for (const std::size_t u : order) fill(u, left[u]);
  }

  void put(std::size_t unit, std::size_t position, double amount, double& left) {
    parts_[unit][position] += amount;
    over_[index(units_[unit].nodes[position])] += amount;
    left -= amount;
  }

  // All that is left of a unit; where its nodes may not take it, the first takes too much.
  void fill(std::size_t unit, double left) {
    const std::vector<int>& nodes = units_[unit].nodes;
    while (left > 0.0) {
      std::size_t best = nodes.size();
      for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (parts_[unit][k] >= most(unit, k)) continue;
        if (best == nodes.size() || over_[index(nodes[k])] < over_[index(nodes[best])]) best = k;
      }
      if (best == nodes.size()) return put(unit, 0, left, left);
      put(unit, best, std::min(left, most(unit, best) - parts_[unit][best]), left);
    }
  }

  // A node with room that something can be moved to, from one that has too much.
  int find_way() {
    std::ranges::fill(entry_, Entry{});
    queue_.clear();
    for (std::size_t v = 0; v < over_.size(); ++v) {
      if (over_[v] <= slack_) continue;
      entry_[v].from = kSource;
      queue_.push_back(static_cast<int>(v));
    }
    for (std::size_t next = 0; next < queue_.size(); ++next) {
      look_at_budget();
      const int from = queue_[next];
      for (const auto& [unit, out] : at_[index(from)]) {
        if (!(parts_[unit][out] > 0.0)) continue;
        const std::vector<int>& nodes = units_[unit].nodes;
        for (std::size_t in = 0; in < nodes.size(); ++in) {
          if (parts_[unit][in] >= most(unit, in)) continue;
          Entry& entry = entry_[index(nodes[in])];
          const bool is_better = entry.from == from && parts_[entry.unit][entry.out] < parts_[unit][out];
          if (entry.from != kUnseen && !is_better) continue;
          if (entry.from == kUnseen) queue_.push_back(nodes[in]);
          entry = {from, unit, out, in};
        }
      }
      // All that this node leads to is known, and by most of it.
      for (std::size_t k = next + 1; k < queue_.size(); ++k) {
        if (over_[index(queue_[k])] < -slack_ / 2) return queue_[k];
      }
    }
    return -1;
  }

  void move_along(int end) {
    double amount = -over_[index(end)];
    int begin = end;
    for (; entry_[index(begin)].from != kSource; begin = entry_[index(begin)].from) {
      const Entry& entry = entry_[index(begin)];
      amount = std::min(
          {amount, parts_[entry.unit][entry.out], most(entry.unit, entry.in) - parts_[entry.unit][entry.in]});
    }
    amount = std::min(amount, over_[index(begin)]);
    for (int node = end; node != begin; node = entry_[index(node)].from) {
      const Entry& entry = entry_[index(node)];
      parts_[entry.unit][entry.out] -= amount;
      parts_[entry.unit][entry.in] += amount;
    }
    over_[index(begin)] -= amount;
    over_[index(end)] += amount;
  }

  const std::vector<BalanceUnit>& units_;
  BalanceParts parts_;
  std::vector<double> over_;            // by node: what it has beyond its room
  std::vector<std::vector<Place>> at_;  // by node: the units that it may take
  std::vector<Entry> entry_;            // by node, of a search
  std::vector<int> queue_;
  double slack_ = 0.0;
};

}  // namespace

std::optional<BalanceParts> balance(const std::vector<BalanceUnit>& units, const std::vector<double>& room,
                                    BalanceParts start) {
  const auto is_capped = [](const BalanceUnit& unit) {
    return !unit.most.empty() && std::accumulate(unit.most.begin(), unit.most.end(), 0.0) < unit.amount;
  };
  if (std::ranges::any_of(units, is_capped)) return std::nullopt;
  std::optional<BalanceParts> parts = Balance(units, room, std::move(start)).run();
  if (parts.has_value()) cut_cycles(units, room.size(), *parts);
  return parts;
}

}  // namespace square::planning
