#include "planning/square/formulation.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/spending.h"
#include "lp/solver.h"

namespace square::planning {
namespace {

// Flows under this part of the largest capacity are a solver's noise.
constexpr double kNoFlow = 1e-9;
constexpr int kNone = -1;
// Instead of a row of (3): the flow towards the destination is x_i(e) itself; or every path
// to the destination uses the link, so that x_i(e) is f_i.
constexpr int kAlone = -1;
constexpr int kForced = -2;

using Objective = ShotTrace::Objective;

class Formulation {
 public:
  Formulation(const Problem& problem, const Network& network, const std::vector<bool>& active,
              Objective objective)
      : problem_(problem), network_(network), active_(active), objective_(objective) {
    scale_ = *std::max_element(network.capacity_bps.begin(), network.capacity_bps.end());
    for (std::size_t c = 0; c < active.size(); ++c) {
      if (active[c]) largest_weight_ = std::max(largest_weight_, problem.weight[c]);
    }
  }

  Result<ProgramAnswer> solve() {
    add_limits();
    add_collectives();
    path_column_.resize(problem_.sessions.size());
    conceptual_row_.resize(problem_.sessions.size());
    forced_.resize(problem_.sessions.size());
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) {
      look_at_budget();
      if (active_[problem_.sessions[i].collective]) add_session(i);
    }
    SQUARE_ASSIGN_OR_RETURN(const Solution solution, square::solve(program_));
    return read(solution);
  }

 private:
  // (4) and the node limits.
  void add_limits() {
    const auto rows = [&](const std::vector<double>& limits, std::vector<int>& out) {
      for (const double limit : limits) {
        out.push_back(std::isfinite(limit) ? program_.add_row({-kLpInfinity, limit / scale_}) : kNone);
      }
    };
    rows(network_.capacity_bps, link_row_);
    rows(network_.egress_bps, egress_row_);
    rows(network_.ingress_bps, ingress_row_);
  }

  // g_c, and X <= g_c / w_c (6) written as w_c X - g_c <= 0; or max sum g_c (1).
  void add_collectives() {
    const bool max_min = objective_ == Objective::kMaxMin;
    if (max_min) level_column_ = program_.add_column({0, kLpInfinity, 1});
    for (std::size_t c = 0; c < active_.size(); ++c) {
      rate_column_.push_back(kNone);
      level_row_.push_back(kNone);
      if (!active_[c]) continue;
      rate_column_[c] = program_.add_column({0, kLpInfinity, max_min ? 0.0 : 1.0});
      if (!max_min) continue;
      level_row_[c] = program_.add_row({-kLpInfinity, 0});
      program_.add_entry(level_row_[c], level_column_, problem_.weight[c] / largest_weight_);
      program_.add_entry(level_row_[c], rate_column_[c], -1);
    }
  }

  // The link's rows of capacity and limits.
  void charge(LinkId link, int column, double part = 1.0) {
    const TopologyLink& ends = problem_.topology().link(link);
    program_.add_entry(link_row_[link.index()], column, part);
    if (egress_row_[ends.from.index()] != kNone) {
      program_.add_entry(egress_row_[ends.from.index()], column, part);
    }
    if (ingress_row_[ends.to.index()] != kNone) {
      program_.add_entry(ingress_row_[ends.to.index()], column, part);
    }
  }

  [[nodiscard]] bool usable(const Path& path) const {
    return std::all_of(path.links.begin(), path.links.end(), [&](LinkId link) {
      const TopologyLink& ends = problem_.topology().link(link);
      return network_.capacity_bps[link.index()] > 0 && network_.egress_bps[ends.from.index()] > 0 &&
             network_.ingress_bps[ends.to.index()] > 0;
    });
  }

  // How many usable paths to a destination use each link, and how many there are.
  struct Usage {
    std::size_t paths = 0;
    std::map<LinkId, std::size_t> by_link;
  };

  [[nodiscard]] Usage usage_of(const std::vector<Path>& feasible) const {
    Usage usage;
    for (const Path& path : feasible) {
      if (!usable(path)) continue;
      ++usage.paths;
      for (const LinkId link : path.links) ++usage.by_link[link];
    }
    return usage;
  }

  // x_i(e) needs a variable only where several destinations can use the link and none must.
  // Where one can, it is that destination's flow; where one must, it is f_i, because no
  // destination's flow need be more than f_i.
  void add_session(std::size_t i) {
    const auto& paths = problem_.paths[i];
    const Session& session = problem_.sessions[i];
    std::vector<Usage> usages;
    std::map<LinkId, int> users;
    for (const auto& feasible : paths) {
      const Usage& usage = usages.emplace_back(usage_of(feasible));
      for (const auto& [link, count] : usage.by_link) {
        ++users[link];
        if (count == usage.paths) ++forced_[i][link];
      }
    }
    std::map<LinkId, int> effective;
    for (const auto& [link, count] : users) {
      if (forced_[i].contains(link)) {
        charge(link, rate_column_[session.collective], session.fraction);
      } else if (count > 1) {
        effective[link] = program_.add_column({});
        charge(link, effective[link]);
      }
    }
    path_column_[i].resize(paths.size());
    conceptual_row_[i].resize(paths.size());
    for (std::size_t j = 0; j < paths.size(); ++j) add_destination(i, j, usages[j], effective);
  }

  // (2) and (3) of one destination.
  void add_destination(std::size_t i, std::size_t j, const Usage& usage,
                       const std::map<LinkId, int>& effective) {
    const Session& session = problem_.sessions[i];
    // No more than f_i where some x_i(e) was set to f_i.
    const int rate_row = program_.add_row({forced_[i].empty() ? -kLpInfinity : 0.0, 0.0});
    program_.add_entry(rate_row, rate_column_[session.collective], session.fraction);
    std::map<LinkId, int>& rows = conceptual_row_[i][j];
    for (const auto& [link, count] : usage.by_link) {
      if (count == usage.paths) rows.emplace(link, kForced);
    }
    for (const Path& path : problem_.paths[i][j]) {
      path_column_[i][j].push_back(kNone);
      if (!usable(path)) continue;
      const int column = program_.add_column({});
      path_column_[i][j].back() = column;
      program_.add_entry(rate_row, column, -1);
      for (const LinkId link : path.links) {
        if (!forced_[i].contains(link)) use(link, column, effective, rows);
      }
    }
  }

  // One link of a path with variable `column`, in (3) or straight in (4).
  void use(LinkId link, int column, const std::map<LinkId, int>& effective, std::map<LinkId, int>& rows) {
    const auto shared = effective.find(link);
    if (shared == effective.end()) {
      charge(link, column);
      rows.emplace(link, kAlone);
      return;
    }
    const auto [row, is_new] = rows.emplace(link, kNone);
    if (is_new) {
      row->second = program_.add_row({-kLpInfinity, 0});
      program_.add_entry(row->second, shared->second, -1);
    }
    program_.add_entry(row->second, column, 1);
  }

  ProgramAnswer read(const Solution& solution) {
    ProgramAnswer answer;
    answer.allocations = empty_allocations(problem_);
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) {
      look_at_budget();
      Allocation& allocation = answer.allocations[i];
      for (std::size_t j = 0; j < path_column_[i].size(); ++j) {
        for (std::size_t p = 0; p < path_column_[i][j].size(); ++p) {
          const int column = path_column_[i][j][p];
          if (column == kNone || solution.primal[column] < kNoFlow) continue;
          allocation.path_bps[j][p] = solution.primal[column] * scale_;
        }
      }
      if (path_column_[i].empty()) continue;
      allocation.link_bps = effective_rates(problem_.paths[i], allocation.path_bps);
      allocation.rate_bps = carried_bps(allocation);
    }
    clip_to_network(problem_, network_, answer.allocations);
    read_collectives(solution, answer);
    read_prices(solution, answer.prices);
    return answer;
  }

  void read_collectives(const Solution& solution, ProgramAnswer& answer) const {
    const bool max_min = objective_ == Objective::kMaxMin;
    const double optimum = solution.objective < kNoFlow ? 0.0 : solution.objective;
    answer.optimum_bps = optimum * scale_ / (max_min ? largest_weight_ : 1.0);
    answer.collective_bps.assign(active_.size(), 0.0);
    answer.collective_dual.assign(active_.size(), 0.0);
    for (std::size_t c = 0; c < active_.size(); ++c) {
      if (!active_[c]) continue;
      double rate = std::max(solution.primal[rate_column_[c]], 0.0) * scale_;
      if (max_min) {
        rate = answer.optimum_bps * problem_.weight[c];
        // The row is w_c / w_max times the one in the design.
        answer.collective_dual[c] = solution.row_duals[level_row_[c]] * problem_.weight[c] / largest_weight_;
      }
      for (const std::size_t i : problem_.sessions_of[c]) {
        rate = std::min(rate, answer.allocations[i].rate_bps / problem_.sessions[i].fraction);
      }
      answer.collective_bps[c] = rate;
    }
  }

  void read_prices(const Solution& solution, Prices& prices) const {
    const auto dual = [&](int row) { return row == kNone ? 0.0 : std::max(solution.row_duals[row], 0.0); };
    for (const int row : link_row_) prices.link.push_back(dual(row));
    for (const int row : egress_row_) prices.egress.push_back(dual(row));
    for (const int row : ingress_row_) prices.ingress.push_back(dual(row));
    prices.conceptual.resize(conceptual_row_.size());
    for (std::size_t i = 0; i < conceptual_row_.size(); ++i) {
      look_at_budget();
      for (const std::map<LinkId, int>& rows : conceptual_row_[i]) {
        std::map<LinkId, double>& lengths = prices.conceptual[i].emplace_back();
        for (const auto& [link, row] : rows) {
          if (row >= 0) {
            lengths[link] = dual(row);
            continue;
          }
          const TopologyLink& ends = problem_.topology().link(link);
          const double whole =
              prices.link[link.index()] + prices.egress[ends.from.index()] + prices.ingress[ends.to.index()];
          // Destinations that must use the link share its price.
          lengths[link] = row == kForced ? whole / forced_[i].at(link) : whole;
        }
      }
    }
  }

  const Problem& problem_;
  const Network& network_;
  const std::vector<bool>& active_;
  const Objective objective_;
  double scale_ = 1.0;
  double largest_weight_ = 0.0;
  LinearProgram program_;
  std::vector<int> link_row_;
  std::vector<int> egress_row_;
  std::vector<int> ingress_row_;
  int level_column_ = kNone;
  std::vector<int> rate_column_;  // by collective
  std::vector<int> level_row_;
  std::vector<std::vector<std::vector<int>>> path_column_;  // [session][destination][path]
  // [session][destination]: the row of (3), kAlone or kForced.
  std::vector<std::vector<std::map<LinkId, int>>> conceptual_row_;
  // [session]: links that some destinations must use, and how many of them.
  std::vector<std::map<LinkId, int>> forced_;
};

}  // namespace

Result<ProgramAnswer> solve_formulation(const Problem& problem, const Network& network,
                                        const std::vector<bool>& active, ShotTrace::Objective objective) {
  return Formulation(problem, network, active, objective).solve();
}

}  // namespace square::planning
