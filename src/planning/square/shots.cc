#include "planning/square/shots.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/spending.h"

namespace square::planning {
namespace {

// A level under this part of the overlay's largest capacity is none.
constexpr double kNoLevel = 1e-9;
// Duals of (6) sum to one.
constexpr double kDualTie = 1e-9;
constexpr double kPositiveDual = 1e-7;

using Objective = ShotTrace::Objective;

class Shots {
 public:
  explicit Shots(const Problem& problem) : problem_(problem), left_(problem.network) {
    answer_.allocations = empty_allocations(problem);
    answer_.collective_bps.assign(problem.weight.size(), 0.0);
    for (const auto& sessions : problem.sessions_of) all_.push_back(!sessions.empty());
    for (const double capacity : left_.capacity_bps) largest_ = std::max(largest_, capacity);
  }

  Result<ShotsAnswer> run(int shots) {
    std::vector<bool> active = all_;
    for (int shot = 0; shot < shots && any(active) && something_left(); ++shot) {
      SQUARE_ASSIGN_OR_RETURN(ProgramAnswer answer, solve(active, Objective::kMaxMin));
      const std::vector<bool> dropped = held_back(answer, active);
      level(answer);
      give(answer);
      for (std::size_t c = 0; c < active.size(); ++c) {
        if (!dropped[c]) continue;
        active[c] = false;
        answer_.trace.back().dropped.push_back(id(c));
      }
      if (shot == 0) answer_.level_prices = std::move(answer.prices);
    }
    if (any(all_) && something_left()) {
      SQUARE_ASSIGN_OR_RETURN(ProgramAnswer answer, solve(all_, Objective::kThroughput));
      give(answer);
    }
    return std::move(answer_);
  }

 private:
  static bool any(const std::vector<bool>& set) {
    return std::find(set.begin(), set.end(), true) != set.end();
  }
  [[nodiscard]] bool something_left() const {
    return std::any_of(left_.capacity_bps.begin(), left_.capacity_bps.end(), [](double c) { return c > 0; });
  }
  [[nodiscard]] CollectiveId id(std::size_t c) const { return problem_.scenario->collectives[c].id; }

  Result<ProgramAnswer> solve(const std::vector<bool>& active, Objective objective) {
    ShotTrace trace;
    trace.objective = objective;
    for (std::size_t c = 0; c < active.size(); ++c) {
      if (active[c]) trace.active.push_back(id(c));
    }
    trace.residual_capacity_bps = left_.capacity_bps;
    trace.residual_egress_bps = left_.egress_bps;
    trace.residual_ingress_bps = left_.ingress_bps;
    const Phase phase("solving the program of a shot");
    Result<ProgramAnswer> answer = solve_formulation(problem_, left_, active, objective);
    if (!answer.is_ok()) {
      return answer.status().with_context(fmt::format("program {} of the plan", answer_.trace.size() + 1));
    }
    trace.optimum_bps = answer->optimum_bps;
    answer_.trace.push_back(std::move(trace));
    return answer;
  }

  // Every collective to the same rate / weight.
  void level(ProgramAnswer& answer) const {
    double level = answer.optimum_bps;
    for (std::size_t c = 0; c < answer.collective_bps.size(); ++c) {
      if (is_active(c)) level = std::min(level, answer.collective_bps[c] / problem_.weight[c]);
    }
    for (std::size_t c = 0; c < answer.collective_bps.size(); ++c) {
      answer.collective_bps[c] = is_active(c) ? level * problem_.weight[c] : 0.0;
    }
  }

  [[nodiscard]] bool is_active(std::size_t c) const {
    const auto& active = answer_.trace.back().active;
    return std::find(active.begin(), active.end(), id(c)) != active.end();
  }

  // Trims, adds to the sums, and takes it from what is left.
  void give(ProgramAnswer& answer) {
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) {
      look_at_budget();
      const Session& session = problem_.sessions[i];
      trim(problem_.paths[i], session.fraction * answer.collective_bps[session.collective],
           answer.allocations[i]);
      add(answer.allocations[i], answer_.allocations[i]);
    }
    for (std::size_t c = 0; c < answer.collective_bps.size(); ++c) {
      answer_.collective_bps[c] += answer.collective_bps[c];
    }
    subtract(problem_, answer.allocations, problem_.network, left_);
  }

  // The collectives to drop: the one with the largest dual, the lowest id among equals.
  // At level zero, every one that has a price or that could not grow even alone.
  [[nodiscard]] std::vector<bool> held_back(const ProgramAnswer& answer,
                                            const std::vector<bool>& active) const {
    std::vector<bool> dropped(active.size(), false);
    double largest = 0.0;
    for (const double dual : answer.collective_dual) largest = std::max(largest, dual);
    std::optional<std::size_t> first;
    for (std::size_t c = 0; c < active.size(); ++c) {
      if (!active[c] || answer.collective_dual[c] < largest - kDualTie) continue;
      if (!first.has_value() || id(c) < id(*first)) first = c;
    }
    if (first.has_value()) dropped[*first] = true;
    if (answer.optimum_bps > kNoLevel * largest_) return dropped;
    for (std::size_t c = 0; c < active.size(); ++c) {
      if (active[c] && (answer.collective_dual[c] > kPositiveDual || !could_grow(c))) dropped[c] = true;
    }
    return dropped;
  }

  // Alone, a collective has a positive rate iff each destination has a path with room.
  [[nodiscard]] bool could_grow(std::size_t c) const {
    const auto has_room = [&](const Path& path) {
      return std::all_of(path.links.begin(), path.links.end(), [&](LinkId link) {
        const TopologyLink& ends = problem_.topology().link(link);
        return left_.capacity_bps[link.index()] > 0 && left_.egress_bps[ends.from.index()] > 0 &&
               left_.ingress_bps[ends.to.index()] > 0;
      });
    };
    for (const std::size_t i : problem_.sessions_of[c]) {
      for (const std::vector<Path>& paths : problem_.paths[i]) {
        if (std::none_of(paths.begin(), paths.end(), has_room)) return false;
      }
    }
    return true;
  }

  const Problem& problem_;
  Network left_;
  double largest_ = 0.0;
  std::vector<bool> all_;
  ShotsAnswer answer_;
};

}  // namespace

Result<ShotsAnswer> run_shots(const Problem& problem, int shots) { return Shots(problem).run(shots); }

}  // namespace square::planning
