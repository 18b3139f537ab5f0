#include "planning/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "planning/cuts.h"
#include "planning/level_bound.h"
#include "planning/streams.h"
#include "planning/tree_packing.h"

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
    add_overlay();
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) SQUARE_RETURN_IF_ERROR(add_session(i));
    SQUARE_RETURN_IF_ERROR(use_room());
    add_collectives();
    add_loads();
    certify();
    add_sums();
    return std::move(plan_);
  }

 private:
  void add_overlay() {
    const Topology& topology = problem_.topology();
    for (std::size_t v = 0; v < topology.node_count(); ++v) {
      const TopologyNode& node = topology.node(NodeId(static_cast<std::uint32_t>(v)));
      plan_.nodes.push_back({node.name, node.egress_bps, node.ingress_bps});
    }
    for (std::size_t e = 0; e < topology.link_count(); ++e) {
      const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
      plan_.links.push_back({link.from, link.to, link.properties.capacity_bps, 0.0, link.properties.latency});
    }
  }

  Status add_session(std::size_t i) {
    const Session& session = problem_.sessions[i];
    Allocation allocation = shots_.allocations[i];
    const double rate = std::min(allocation.rate_bps, carried_bps(allocation));
    allocation.rate_bps = rate > kNoRate * largest_ ? rate : 0.0;

    PlanSession out;
    out.id = session.id;
    out.collective = problem_.scenario->collectives[session.collective].id;
    out.kind = session.kind;
    out.root = session.root;
    out.members = {session.root};
    out.members.insert(out.members.end(), session.destinations.begin(), session.destinations.end());
    out.offset_bytes = session.offset_bytes;
    out.size_bytes = session.size_bytes;
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

  void add_collectives() {
    for (std::size_t c = 0; c < problem_.weight.size(); ++c) {
      const CollectiveSpec& spec = problem_.scenario->collectives[c];
      PlanCollective out;
      out.id = spec.id;
      out.tenant = spec.tenant;
      out.op = spec.op;
      out.weight = problem_.weight[c];
      out.size_bytes = spec.size_bytes;
      out.rate_bps = kUnlimited;
      for (const std::size_t i : problem_.sessions_of[c]) {
        out.sessions.push_back(problem_.sessions[i].id);
        out.rate_bps = std::min(out.rate_bps, plan_.sessions[i].rate_bps / problem_.sessions[i].fraction);
      }
      // Without sessions there is nothing to send: no limit, and no time.
      out.bound_bps = kUnlimited;
      out.completion_seconds = out.rate_bps > 0.0
                                   ? kBitsPerByte * static_cast<double>(spec.size_bytes) / out.rate_bps
                                   : kUnlimited;
      plan_.collectives.push_back(std::move(out));
    }
  }

  void add_loads() {
    const Topology& topology = problem_.topology();
    load_.assign(plan_.collectives.size(), std::vector<double>(plan_.links.size(), 0.0));
    for (std::size_t i = 0; i < plan_.sessions.size(); ++i) {
      std::vector<double>& load = load_[problem_.sessions[i].collective];
      for (const PlanStream& stream : plan_.sessions[i].streams) {
        for (const auto& [from, to] : stream.links) {
          load[topology.find_link(from, to)->index()] += stream.rate_bps;
        }
      }
    }
    for (const std::vector<double>& load : load_) {
      for (std::size_t e = 0; e < load.size(); ++e) plan_.links[e].load_bps += load[e];
    }
  }

  void certify() {
    std::vector<double> rates;
    for (const PlanCollective& collective : plan_.collectives) rates.push_back(collective.rate_bps);
    CutBounds bounds = best_cuts(problem_, rates, load_);
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

  // Collectives that send nothing are in no sum.
  void add_sums() {
    for (const TenantSpec& tenant : problem_.scenario->tenants) {
      PlanTenant& out = plan_.tenants.emplace_back(PlanTenant{tenant.name, tenant.weight, 0.0});
      for (const PlanCollective& collective : plan_.collectives) {
        if (collective.tenant == tenant.name && std::isfinite(collective.rate_bps)) {
          out.rate_bps += collective.rate_bps;
        }
      }
    }
    std::vector<double> levels;
    double least = kUnlimited;
    for (const PlanCollective& collective : plan_.collectives) {
      if (!std::isfinite(collective.rate_bps)) continue;
      least = std::min(least, collective.rate_bps);
      plan_.total_rate_bps += collective.rate_bps;
      levels.push_back(collective.rate_bps / collective.weight);
    }
    plan_.min_rate_bps = levels.empty() ? 0.0 : least;
    plan_.jain = jain_index(levels);
  }

  const Problem& problem_;
  const ShotsAnswer& shots_;
  double largest_ = 0.0;
  std::vector<std::vector<double>> load_;  // [collective][link], of streams
  Plan plan_;
};

}  // namespace

Result<Plan> assemble(const Problem& problem, const ShotsAnswer& shots, std::string_view policy) {
  return Assembly(problem, shots).run(policy);
}

}  // namespace square::planning
