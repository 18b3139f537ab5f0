#include "planning/square/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/packing/tree_packing.h"
#include "planning/plan/parts.h"
#include "planning/square/cuts.h"
#include "planning/square/level_bound.h"
#include "planning/square/streams.h"

namespace square::planning {
namespace {

// A session whose rate is under this part of the overlay's largest capacity has none.
constexpr double kNoRate = 1e-9;
// Trees that carry less than this part of what the program allows are packed once more.
constexpr double kGoodPacking = 1.0 - kThinLoss - 1e-4;

class Assembly {
 public:
  Assembly(const Problem& problem, const ShotsAnswer& shots) : problem_(problem), shots_(shots) {
    for (const double capacity : problem.network.capacity_bps) largest_ = std::max(largest_, capacity);
  }

  Result<Plan> run(std::string_view policy) {
    plan_.policy = policy;
    add_overlay(problem_, plan_);
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) SQUARE_RETURN_IF_ERROR(add_session(i));
    SQUARE_RETURN_IF_ERROR(use_room());
    add_collectives(problem_, plan_);
    certify();
    add_sums(problem_, plan_);
    return std::move(plan_);
  }

 private:
  Status add_session(std::size_t i) {
    const Phase phase("packing trees");
    look_at_budget();
    const Session& session = problem_.sessions[i];
    Allocation allocation = shots_.allocations[i];
    const double rate = std::min(allocation.rate_bps, carried_bps(allocation));
    allocation.rate_bps = rate > kNoRate * largest_ ? rate : 0.0;

    PlanSession out = plan_session(problem_, session);
    out.lp_rate_bps = allocation.rate_bps;
    if (allocation.rate_bps > 0.0) {
      for (std::size_t j = 0; j < session.destinations.size(); ++j) {
        for (std::size_t p = 0; p < problem_.paths[i][j].size(); ++p) {
          const double flow = allocation.path_bps[j][p];
          if (flow > 0.0) out.paths.push_back({session.destinations[j], problem_.paths[i][j][p].nodes, flow});
        }
      }
    }
    Result<std::vector<PlanStream>> streams = realise(problem_, i, allocation);
    if (!streams.is_ok()) return name_session(streams.status(), session.id);
    set_streams(std::move(streams).value(), out);
    plan_.sessions.push_back(std::move(out));
    return Status::ok();
  }

  static Status name_session(const Status& status, SessionId id) {
    return status.with_context(fmt::format("trees of session {}", id.value()));
  }

  static void set_streams(std::vector<PlanStream> streams, PlanSession& session) {
    session.streams = std::move(streams);
    session.rate_bps = 0.0;
    for (const PlanStream& stream : session.streams) session.rate_bps += stream.rate_bps;
  }

  // Where trees fall short of the program, the worst session first, they may use whatever
  // all streams together leave.
  Status use_room() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < plan_.sessions.size(); ++i) {
      if (packing_quality(i) < kGoodPacking) order.push_back(i);
    }
    if (order.empty()) return Status::ok();
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return packing_quality(a) < packing_quality(b); });
    Network room = problem_.network;
    for (const PlanSession& session : plan_.sessions) move_room(session, -1.0, room);
    for (const std::size_t i : order) {
      PlanSession& session = plan_.sessions[i];
      Allocation allocation = shots_.allocations[i];
      allocation.rate_bps = session.lp_rate_bps;
      move_room(session, 1.0, room);
      Result<std::vector<PlanStream>> streams = realise_within(problem_, i, allocation, room);
      if (!streams.is_ok()) return name_session(streams.status(), session.id);
      PlanSession better = session;
      set_streams(std::move(streams).value(), better);
      if (better.rate_bps > session.rate_bps) session = std::move(better);
      move_room(session, -1.0, room);
    }
    return Status::ok();
  }

  [[nodiscard]] double packing_quality(std::size_t i) const {
    const PlanSession& session = plan_.sessions[i];
    return session.lp_rate_bps > 0.0 ? session.rate_bps / session.lp_rate_bps : 1.0;
  }

  // Gives back (sign 1) or takes (sign -1) what a session's streams use.
  void move_room(const PlanSession& session, double sign, Network& room) const {
    const auto move = [](double amount, double whole, double& left) {
      left += amount;
      // Sums that come to nothing leave digits behind.
      if (left < kNothingLeft * whole) left = 0.0;
    };
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) {
        const std::size_t link = problem_.topology().find_link(from, to)->index();
        const double amount = sign * stream.rate_bps;
        move(amount, problem_.network.capacity_bps[link], room.capacity_bps[link]);
        move(amount, problem_.network.egress_bps[from.index()], room.egress_bps[from.index()]);
        move(amount, problem_.network.ingress_bps[to.index()], room.ingress_bps[to.index()]);
      }
    }
  }

  void certify() {
    std::vector<double> rates;
    for (const PlanCollective& collective : plan_.collectives) rates.push_back(collective.rate_bps);
    add_loads(problem_, plan_);
    CutBounds bounds = best_cuts(problem_, rates, loads_by_collective(problem_, plan_));
    plan_.certificate.cuts = std::move(bounds.cuts);
    for (const PlanCut& cut : plan_.certificate.cuts) {
      for (PlanCollective& collective : plan_.collectives) {
        if (collective.id == cut.collective) collective.bound_bps = cut.bound_bps;
      }
    }
    double level = bounds.level_bps;
    if (shots_.level_prices.has_value()) {
      level = std::min(level, level_bound_bps(problem_, *shots_.level_prices));
    }
    if (std::isfinite(level)) plan_.certificate.level_bound_bps = level;
  }

  const Problem& problem_;
  const ShotsAnswer& shots_;
  double largest_ = 0.0;
  Plan plan_;
};

}  // namespace

Result<Plan> assemble(const Problem& problem, const ShotsAnswer& shots, std::string_view policy) {
  return Assembly(problem, shots).run(policy);
}

}  // namespace square::planning
