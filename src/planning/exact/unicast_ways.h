// Pairs of nodes that unicasts go between, and the ways that they may take.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "planning/exact/master.h"

namespace square::planning {

// All that goes from a node to another.
struct UnicastPair {
  int from = 0;
  int to = 0;
  int link = -1;                                        // between the two; -1: there is none
  std::vector<std::pair<std::size_t, double>> demands;  // what part of their group's rate
  // At level t: slope * t + fixed, in bits per second.
  double slope = 0.0;
  double fixed = 0.0;
};

// A way that is not the link itself.
struct UnicastWay {
  std::size_t pair = 0;
  std::vector<int> links;
};

// Of an instance whose demands have one terminal each and share a graph; it must outlive this. Finds first
// ways when it is made. Thread-compatible.
//
// Rows number what ways use and keep: links first, by link, then pairs, then the limits of nodes that are
// less than what their links carry.
class UnicastWays {
 public:
  explicit UnicastWays(const Instance& instance);

  [[nodiscard]] const std::vector<UnicastPair>& pairs() const { return pairs_; }
  [[nodiscard]] const std::vector<UnicastWay>& ways() const { return ways_; }
  [[nodiscard]] std::size_t pair_of(std::size_t demand) const { return pair_of_[demand]; }

  [[nodiscard]] int row_count() const { return rows_; }
  [[nodiscard]] int row_of(std::size_t pair) const { return static_cast<int>(instance_.link_count() + pair); }
  [[nodiscard]] int row_of_egress(std::size_t node) const { return row_of_egress_[node]; }    // -1: none
  [[nodiscard]] int row_of_ingress(std::size_t node) const { return row_of_ingress_[node]; }  // -1: none
  // By row, of links and nodes: bits per second; 0 of pairs.
  [[nodiscard]] std::vector<double> capacities() const;

  // The rows of what a unit over the link uses.
  template <typename Use>
  void each_row(int link, const Use& use) const {
    const auto e = static_cast<std::size_t>(link);
    use(link);
    if (const int row = row_of_egress_[instance_.tail[e].index()]; row >= 0) use(row);
    if (const int row = row_of_ingress_[instance_.head[e].index()]; row >= 0) use(row);
  }

  // The pairs' rates, by what is active and what has its rate, less a part `slack` of that.
  void sum_pairs(const Targets& targets, double slack = 0.0);
  // The level at which what goes straight, or by first ways, fits.
  [[nodiscard]] double level_of_first_ways() const;

  // Adds the way at whose end the distances are, if it is new and not the pair's link.
  void add_way(std::size_t pair, const Distances& from_source);
  // Adds ways over one other node that cost less than `paid`, a few. So fewer programs are solved.
  void add_detours(std::size_t pair, double paid, const std::vector<double>& arc_cost);

 private:
  void collect_pairs();
  void count_rows();
  void find_first_ways();
  void find_detours();
  template <typename Room>
  [[nodiscard]] std::optional<std::pair<int, int>> widest_detour(const UnicastPair& pair,
                                                                 const Room& room_of) const;
  [[nodiscard]] double level_of_ends() const;
  [[nodiscard]] std::vector<int> arcs_to(int node) const;
  bool add(UnicastWay way);

  const Instance& instance_;
  const DemandGraph& graph_;
  std::vector<UnicastPair> pairs_;
  std::vector<std::size_t> pair_of_;  // by demand
  std::vector<UnicastWay> ways_;
  std::set<std::pair<std::size_t, std::vector<int>>> known_;
  int rows_ = 0;
  std::vector<int> row_of_egress_;  // by node
  std::vector<int> row_of_ingress_;
};

}  // namespace square::planning
