#include "planning/exact/cut_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "lp/solver.h"
#include "planning/exact/max_flow.h"
#include "planning/exact/spanning.h"

namespace square::planning {
namespace {

// Multicasts or sums: the graph that both have, turned so that arcs lead away from the roots.
struct CutFamily {
  std::shared_ptr<const DemandGraph> graph;
  std::vector<std::size_t> demands;
};

std::optional<std::array<CutFamily, 2>> families_of(const Instance& instance) {
  if (instance.demands.empty() || instance.budget_usd_per_hour.has_value()) return std::nullopt;
  std::array<CutFamily, 2> families;
  for (std::size_t i = 0; i < instance.demands.size(); ++i) {
    const Demand& demand = instance.demands[i];
    if (!demand.spanning || !demand.max_latency.empty() || demand.redundancy > 0) return std::nullopt;
    CutFamily& family = families[demand.reversed ? 1 : 0];
    if (family.graph == nullptr) family.graph = demand.graph;
    if (family.graph != demand.graph) return std::nullopt;
    family.demands.push_back(i);
  }
  return families;
}

// One set of nodes that roots outside must get into, over what a family may use.
struct FormCut {
  int family = 0;
  std::vector<int> far_side;  // ascending
  int row = 0;
};

class CutForm {
  // A cut that lacks less than this part of what all roots send is a solver's tolerance.
  static constexpr double kViolation = 1e-8;
  // How near to a corner a point between is.
  static constexpr double kStep = 0.5;
  // How far below the bound a level may be, and the largest share above the least.
  static constexpr double kGap = 2e-8;
  static constexpr double kEvenGap = 0.5;
  // Rates that were found are asked for with this much less.
  static constexpr double kSlack = 1e-9;
  // A share below this part of its group's rate is none.
  static constexpr double kNoShare = 1e-6;
  // A dual below this part of the largest is none.
  static constexpr double kNoDual = 1e-11;

 public:
  CutForm(const Instance& instance, std::array<CutFamily, 2> families)
      : instance_(instance),
        families_(std::move(families)),
        nodes_(static_cast<int>(instance.node_count())),
        targets_(active_targets(instance)) {
    double sum = 0.0;
    for (const double capacity : instance.network.capacity_bps) sum += capacity;
    unit_ = sum / static_cast<double>(instance.link_count());
    make_columns();
    make_rows();
  }

  Result<CutFormAnswer> run() {
    const Phase phase("looking for the cuts that are full");
    SQUARE_RETURN_IF_ERROR(find_inner_point());
    CutFormAnswer answer;
    while (std::ranges::find(targets_.kind, Targets::Kind::kActive) != targets_.kind.end()) {
      SQUARE_ASSIGN_OR_RETURN(const Solution solution, solve_with_cuts(kGap));
      const double level = inner_[column_of_level_] * unit_;
      if (!(level > 0.0)) return internal_error("the level of the active collectives is not positive");
      targets_.unit = level;
      ProvenLevel& out = answer.levels.emplace_back();
      out.level = level;
      out.proof = proof_of(solution);
      out.groups = stop(solution, level);
      basis_ = {};
    }
    answer.rate = targets_.rate;
    SQUARE_ASSIGN_OR_RETURN(answer.share, even_shares());
    return answer;
  }

 private:
  // --- the program: what its columns and rows are

  void make_columns() {
    share_of_.resize(instance_.demands.size());
    column_of_level_ = program_.add_column({0.0, kLpInfinity, 1.0});
    for (int f = 0; f < 2; ++f) {
      sent_[f] = program_.add_column({});
      used_[f].assign(instance_.link_count(), -1);
      if (families_[f].graph == nullptr) continue;
      for (const int link : families_[f].graph->link) {
        const auto e = static_cast<std::size_t>(link);
        used_[f][e] = program_.add_column({0.0, instance_.network.capacity_bps[e] / unit_, 0.0});
      }
    }
    for (const Group& group : instance_.groups) {
      std::vector<int>& columns = share_.emplace_back();
      for (const Alternative& alternative : group.alternatives) {
        columns.push_back(program_.add_column({}));
        for (std::size_t k = 0; k < alternative.demands.size(); ++k)
          share_of_[alternative.demands[k]] = {columns.back(), alternative.fractions[k]};
      }
    }
  }

  void make_rows() {
    for (std::size_t c = 0; c < share_.size(); ++c) {
      const int row = program_.add_row({0.0, kLpInfinity});
      group_row_.push_back(row);
      for (const int column : share_[c]) program_.add_entry(row, column, 1.0);
      if (!share_[c].empty()) program_.add_entry(row, column_of_level_, -targets_.weight[c]);
    }
    for (int f = 0; f < 2; ++f) {
      const int row = program_.add_row({0.0, 0.0});
      program_.add_entry(row, sent_[f], -1.0);
      add_roots(f, row, {}, 1.0);
    }
    add_resources();
    for (int f = 0; f < 2; ++f) {
      if (families_[f].graph == nullptr) continue;
      for (int v = 0; v < nodes_; ++v) {
        add_cut(f, {v});
        std::vector<int> others;
        for (int other = 0; other < nodes_; ++other) {
          if (other != v) others.push_back(other);
        }
        add_cut(f, std::move(others));
      }
    }
  }

  void add_resources() {
    link_row_.assign(instance_.link_count(), -1);
    for (std::size_t e = 0; e < instance_.link_count(); ++e) {
      if (used_[0][e] < 0 || used_[1][e] < 0) continue;
      link_row_[e] = program_.add_row({-kLpInfinity, instance_.network.capacity_bps[e] / unit_});
      for (int f = 0; f < 2; ++f) program_.add_entry(link_row_[e], used_[f][e], 1.0);
    }
    egress_row_ = node_rows(instance_.network.egress_bps, instance_.tail);
    ingress_row_ = node_rows(instance_.network.ingress_bps, instance_.head);
  }

  std::vector<int> node_rows(const std::vector<double>& limit, const std::vector<NodeId>& end) {
    std::vector<int> rows(limit.size(), -1);
    std::vector<double> whole(limit.size(), 0.0);
    for (std::size_t e = 0; e < end.size(); ++e) whole[end[e].index()] += instance_.network.capacity_bps[e];
    for (std::size_t e = 0; e < end.size(); ++e) {
      const std::size_t v = end[e].index();
      if (whole[v] <= limit[v]) continue;  // a limit that the links keep anyway
      if (rows[v] < 0) rows[v] = program_.add_row({-kLpInfinity, limit[v] / unit_});
      for (int f = 0; f < 2; ++f) {
        if (used_[f][e] >= 0) program_.add_entry(rows[v], used_[f][e], 1.0);
      }
    }
    return rows;
  }

  // What roots in `nodes`, ascending, or all roots where there are none, send.
  void add_roots(int f, int row, const std::vector<int>& nodes, double factor) {
    for (const std::size_t i : families_[f].demands) {
      if (nodes.empty() || std::ranges::binary_search(nodes, instance_.demands[i].root))
        program_.add_entry(row, share_of_[i].first, factor * share_of_[i].second);
    }
  }

  // What gets in, less what all roots send, and what those inside send themselves: not below zero.
  bool add_cut(int f, std::vector<int> far_side) {
    if (!known_[f].insert(far_side).second) return false;
    const int row = program_.add_row({0.0, kLpInfinity});
    const DemandGraph& graph = *families_[f].graph;
    std::vector<bool> inside(static_cast<std::size_t>(nodes_), false);
    for (const int v : far_side) inside[static_cast<std::size_t>(v)] = true;
    for (const int v : far_side) {
      for (const int arc : graph.graph.in[v]) {
        if (inside[static_cast<std::size_t>(graph.graph.arcs[arc].from)]) continue;
        program_.add_entry(row, used_[f][static_cast<std::size_t>(graph.link[arc])], 1.0);
      }
    }
    program_.add_entry(row, sent_[f], -1.0);
    add_roots(f, row, far_side, 1.0);
    cuts_.push_back({f, std::move(far_side), row});
    return true;
  }

  // --- solving

  // Each link in even parts to both families, less where the nodes at its ends cannot do with all, and even
  // shares, as many as fit into that.
  Status find_inner_point() {
    inner_.assign(program_.columns.size(), 0.0);
    const Network& network = instance_.network;
    std::vector<double> out(network.egress_bps.size(), 0.0);
    std::vector<double> in(network.ingress_bps.size(), 0.0);
    for (std::size_t e = 0; e < instance_.link_count(); ++e) {
      out[instance_.tail[e].index()] += network.capacity_bps[e];
      in[instance_.head[e].index()] += network.capacity_bps[e];
    }
    for (std::size_t e = 0; e < instance_.link_count(); ++e) {
      const std::size_t tail = instance_.tail[e].index();
      const std::size_t head = instance_.head[e].index();
      const double part =
          std::min({1.0, network.egress_bps[tail] / out[tail], network.ingress_bps[head] / in[head]});
      const double halves = used_[0][e] >= 0 && used_[1][e] >= 0 ? 0.5 : 1.0;
      for (int f = 0; f < 2; ++f) {
        if (used_[f][e] >= 0) inner_[used_[f][e]] = part * halves * network.capacity_bps[e] / unit_;
      }
    }
    double level = kUnreachable;
    for (int f = 0; f < 2; ++f) {
      if (families_[f].graph == nullptr) continue;
      SQUARE_ASSIGN_OR_RETURN(const double fits, level_of_even_shares(f));
      level = std::min(level, fits);
    }
    inner_[column_of_level_] = level;
    for (std::size_t c = 0; c < share_.size(); ++c) {
      for (const int column : share_[c])
        inner_[column] = targets_.weight[c] * level / static_cast<double>(share_[c].size());
    }
    for (int f = 0; f < 2; ++f) {
      for (const std::size_t i : families_[f].demands)
        inner_[sent_[f]] += inner_[share_of_[i].first] * share_of_[i].second;
    }
    return Status::ok();
  }

  // With what inner_ gives the family.
  [[nodiscard]] Result<double> level_of_even_shares(int f) const {
    const DemandGraph& graph = *families_[f].graph;
    std::vector<double> capacity;
    for (const int link : graph.link) capacity.push_back(inner_[used_[f][static_cast<std::size_t>(link)]]);
    SpanningGroup all;
    for (std::size_t c = 0; c < share_.size(); ++c) {
      for (const Alternative& alternative : instance_.groups[c].alternatives) {
        for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
          const Demand& demand = instance_.demands[alternative.demands[k]];
          const double part = alternative.fractions[k] / static_cast<double>(share_[c].size());
          if (static_cast<int>(demand.reversed) == f)
            all.roots.emplace_back(demand.root, part * targets_.weight[c]);
        }
      }
    }
    SQUARE_ASSIGN_OR_RETURN(const SpanningAnswer answer, solve_spanning(graph.graph, capacity, {all}));
    return answer.rate.front() * (1.0 - kSlack);
  }

  // A solution of the program is a corner, and where many are as good as another, corners break cuts without
  // end. So cuts are looked for half way between the corner and a point that keeps all of them, and where
  // there are none that is such a point, nearer to the optimum (in-out separation, Ben-Ameur and Neto 2007).
  // Leaves the point in inner_; returns the last program's solution, whose duals bound it.
  Result<Solution> solve_with_cuts(double gap) {
    for (int round = 0; round < kMaxCutFormRounds; ++round) {
      look_at_budget();
      if (instance_.is_late()) return deadline_exceeded("cuts: no optimum in time");
      SQUARE_ASSIGN_OR_RETURN(Solution solution, solve_from_last());
      while (true) {
        if (std::abs(solution.objective - value_of(inner_)) <= gap * std::abs(solution.objective))
          return solution;
        std::vector<double> between = inner_;
        for (std::size_t k = 0; k < between.size(); ++k)
          between[k] += kStep * (solution.primal[k] - between[k]);
        if (separate(between)) break;
        inner_ = std::move(between);
      }
    }
    return resource_exhausted("cuts: no optimum after as many rounds as are allowed");
  }

  // Cuts were added since, so that the duals are right still.
  Result<Solution> solve_from_last() {
    if (!basis_.rows.empty()) {
      basis_.rows.resize(program_.rows.size(), kBasic);
      basis_.by_dual = true;
    }
    IncrementalProgram program(program_, std::move(basis_));
    Result<Solution> solution = program.solve();
    basis_ = program.basis();
    return solution;
  }

  [[nodiscard]] double value_of(const std::vector<double>& point) const {
    double value = 0.0;
    for (std::size_t k = 0; k < point.size(); ++k) value += program_.columns[k].cost * point[k];
    return value;
  }

  bool separate(const std::vector<double>& point) {
    bool added = false;
    for (int f = 0; f < 2; ++f) {
      if (families_[f].graph != nullptr && separate(f, point)) added = true;
    }
    return added;
  }

  // Adds cuts that the point does not keep; whether there were any.
  bool separate(int f, const std::vector<double>& point) {
    const DemandGraph& graph = *families_[f].graph;
    std::vector<double> capacity;
    for (const int link : graph.link)
      capacity.push_back(std::max(point[used_[f][static_cast<std::size_t>(link)]], 0.0));
    std::vector<double> supply(static_cast<std::size_t>(nodes_), 0.0);
    double total = 0.0;
    for (const std::size_t i : families_[f].demands) {
      const double rate = std::max(point[share_of_[i].first], 0.0) * share_of_[i].second;
      supply[static_cast<std::size_t>(instance_.demands[i].root)] += rate;
      total += rate;
    }
    MaxFlow flow(graph.graph, capacity);
    const double enough = total * (1.0 - kViolation);
    bool added = false;
    for (int sink = 0; sink < nodes_; ++sink) {
      look_at_budget();
      if (flow.run(supply, sink, enough) > enough) continue;
      std::vector<int> far_side = flow.sink_side();
      std::ranges::sort(far_side);
      if (add_cut(f, std::move(far_side))) added = true;
    }
    return added;
  }

  std::vector<std::size_t> stop(const Solution& solution, double level) {
    std::vector<double> binding;
    for (std::size_t c = 0; c < group_row_.size(); ++c)
      binding.push_back(targets_.weight[c] * std::abs(solution.row_duals[group_row_[c]]));
    std::vector<std::size_t> stopped = stop_binding(binding, level, targets_);
    for (const std::size_t c : stopped) {
      program_.rows[group_row_[c]].lower = targets_.rate[c] / unit_ * (1.0 - kSlack);
      program_.add_entry(group_row_[c], column_of_level_, targets_.weight[c]);  // none of t any more
    }
    return stopped;
  }

  // The duals of the cuts are the packings of all sessions whose root is outside.
  [[nodiscard]] Proof proof_of(const Solution& solution) const {
    Proof proof;
    proof.duals.link.assign(instance_.link_count(), 0.0);
    proof.duals.egress = node_duals(egress_row_, solution);
    proof.duals.ingress = node_duals(ingress_row_, solution);
    proof.packings.resize(instance_.demands.size());
    double largest = 0.0;
    for (const FormCut& cut : cuts_) largest = std::max(largest, std::abs(solution.row_duals[cut.row]));
    std::array<std::vector<double>, 2> crossed;
    for (auto& lengths : crossed) lengths.assign(instance_.link_count(), 0.0);
    for (const FormCut& cut : cuts_) {
      const double length = std::abs(solution.row_duals[cut.row]);
      if (length <= kNoDual * largest) continue;
      cross(cut, length, crossed[static_cast<std::size_t>(cut.family)]);
      for (const std::size_t i : families_[static_cast<std::size_t>(cut.family)].demands) {
        if (std::ranges::binary_search(cut.far_side, instance_.demands[i].root)) continue;
        proof.packings[i].cuts.push_back({cut.far_side, length});
        proof.packings[i].length += length;
      }
    }
    for (std::size_t e = 0; e < instance_.link_count(); ++e) {
      const double ends =
          proof.duals.egress[instance_.tail[e].index()] + proof.duals.ingress[instance_.head[e].index()];
      proof.duals.link[e] = std::max({crossed[0][e] - ends, crossed[1][e] - ends, 0.0});
    }
    proof.bound = proven_bound(instance_, targets_, proof);
    return proof;
  }

  void cross(const FormCut& cut, double length, std::vector<double>& crossed) const {
    const DemandGraph& graph = *families_[static_cast<std::size_t>(cut.family)].graph;
    std::vector<bool> inside(static_cast<std::size_t>(nodes_), false);
    for (const int v : cut.far_side) inside[static_cast<std::size_t>(v)] = true;
    for (std::size_t arc = 0; arc < graph.link.size(); ++arc) {
      const Digraph::Arc& ends = graph.graph.arcs[arc];
      if (inside[static_cast<std::size_t>(ends.to)] && !inside[static_cast<std::size_t>(ends.from)])
        crossed[static_cast<std::size_t>(graph.link[arc])] += length;
    }
  }

  static std::vector<double> node_duals(const std::vector<int>& rows, const Solution& solution) {
    std::vector<double> duals;
    for (const int row : rows) duals.push_back(row < 0 ? 0.0 : std::abs(solution.row_duals[row]));
    return duals;
  }

  // All groups keep their rates, and the largest share of each is as small as can be: with few roots, trees
  // would branch a lot behind them.
  Result<std::vector<std::vector<double>>> even_shares() {
    program_.sense = LinearProgram::Sense::kMinimise;
    program_.columns[column_of_level_] = {0.0, 0.0, 0.0};
    inner_[column_of_level_] = 0.0;
    for (std::size_t c = 0; c < share_.size(); ++c) {
      if (share_[c].size() < 2) continue;
      const int largest = program_.add_column({0.0, kLpInfinity, 1.0});
      inner_.push_back(0.0);
      for (const int column : share_[c]) {
        const int row = program_.add_row({0.0, kLpInfinity});
        program_.add_entry(row, largest, 1.0);
        program_.add_entry(row, column, -1.0);
        inner_.back() = std::max(inner_.back(), inner_[column]);
      }
    }
    SQUARE_RETURN_IF_ERROR(solve_with_cuts(kEvenGap).status());
    std::vector<std::vector<double>> shares(share_.size());
    for (std::size_t c = 0; c < share_.size(); ++c) {
      if (share_[c].size() < 2) continue;
      double all = 0.0;
      for (const int column : share_[c]) all += std::max(inner_[column], 0.0);
      double whole = 0.0;
      for (const int column : share_[c]) {
        const double share = inner_[column] > kNoShare * all ? inner_[column] : 0.0;
        shares[c].push_back(share);
        whole += share;
      }
      for (double& share : shares[c]) share *= targets_.rate[c] / whole;
    }
    return shares;
  }

  const Instance& instance_;
  const std::array<CutFamily, 2> families_;
  const int nodes_;
  Targets targets_;
  double unit_ = 1.0;  // bits per second of the program's one

  LinearProgram program_;
  int column_of_level_ = 0;
  std::array<int, 2> sent_{};                     // columns: what all roots of a family send
  std::array<std::vector<int>, 2> used_;          // columns by link, -1 where the family may not use it
  std::vector<std::vector<int>> share_;           // columns by group and alternative
  std::vector<std::pair<int, double>> share_of_;  // by demand: its column, and what part of it
  std::vector<int> group_row_;
  std::vector<int> link_row_;
  std::vector<int> egress_row_;
  std::vector<int> ingress_row_;
  Basis basis_;                // where the last program ended; empty: begin afresh
  std::vector<double> inner_;  // by column: keeps all rows, and all cuts that there are
  std::vector<FormCut> cuts_;
  std::array<std::set<std::vector<int>>, 2> known_;
};

}  // namespace

Result<std::optional<CutFormAnswer>> cut_form_rates(const Instance& instance) {
  std::optional<std::array<CutFamily, 2>> families = families_of(instance);
  if (!families.has_value()) return std::optional<CutFormAnswer>();
  SQUARE_ASSIGN_OR_RETURN(CutFormAnswer answer, CutForm(instance, *std::move(families)).run());
  return std::optional(std::move(answer));
}

}  // namespace square::planning
