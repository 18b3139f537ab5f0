#include "planning/exact/plan_writing.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/spending.h"
#include "planning/exact/generation.h"
#include "planning/plan/parts.h"

namespace square::planning {
namespace {

constexpr double kNoShare = 1e-7;
constexpr double kNoise = 5e-7;  // less is as good as equal to who checks
constexpr double kRounding = 1e-4;

// With capacities many decades apart trees may carry a little more than the program said.
void trim_to_program(PlanSession& session) {
  const double carried = carried_bps(session);
  const double allowed = session.lp_rate_bps;
  const bool is_rounding = carried > (1 + kNoise) * allowed && carried <= (1 + kRounding) * allowed;
  if (!is_rounding || !session.codes.empty()) return;
  for (PlanStream& stream : session.streams) stream.rate_bps *= allowed / carried;
}

class Writing {
 public:
  Writing(const Problem& problem, const Instance& instance, const ExactSolution& solution)
      : problem_(problem), instance_(instance), solution_(solution) {}

  Plan run() {
    const Phase phase("writing the plan");
    plan_.policy = problem_.scenario->policy.name;
    plan_.realised = solution_.carried.has_value();
    plan_.budget_usd_per_hour = instance_.budget_usd_per_hour;
    add_overlay(problem_, plan_);
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      // With headroom there is less than the topology says; of an avoided link, perhaps nothing.
      const double left = problem_.network.capacity_bps[e];
      if (std::isfinite(plan_.links[e].capacity_bps) && left > 0.0) plan_.links[e].capacity_bps = left;
    }
    for (const NodeId node : problem_.scenario->policy.avoid_nodes) plan_.nodes[node.index()].relays = false;
    for (const LinkId link : problem_.scenario->policy.avoid_links) plan_.links[link.index()].avoided = true;
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) {
      look_at_budget();
      add_session(i);
    }
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) share_bytes(c);
    add_collectives(problem_, plan_);
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      if (!plan_.collectives[c].sessions.empty()) plan_.collectives[c].lp_rate_bps = solution_.lp_rate[c];
    }
    if (plan_.realised) add_loads(problem_, plan_);
    plan_.certificate.levels = solution_.levels;
    plan_.certificate.cost_bound_usd_per_hour = solution_.cost_bound_usd_per_hour;
    if (!solution_.cost_bound_usd_per_hour.has_value()) add_bounds();
    add_sums(problem_, plan_);
    return std::move(plan_);
  }

 private:
  void add_session(std::size_t i) {
    const Session& session = problem_.sessions[i];
    PlanSession out = plan_session(problem_, session);
    for (const double bound : instance_.demands[i].max_latency) {
      if (out.max_latency.empty()) out.max_latency.push_back(Duration::max());  // of the root
      out.max_latency.push_back(std::isfinite(bound) ? Duration(static_cast<Duration::rep>(bound))
                                                     : Duration::max());
    }
    out.lp_rate_bps = session.share.has_value() ? solution_.lp_share[session.collective][*session.share]
                                                : session.fraction * solution_.lp_rate[session.collective];
    // So small a share is a solver's noise.
    const bool is_used = !session.share.has_value() || solution_.flows.empty() ||
                         out.lp_rate_bps > kNoShare * solution_.lp_rate[session.collective];
    if (!is_used) out.lp_rate_bps = 0.0;
    if (session.share.has_value()) {
      const std::vector<std::size_t>& pair =
          instance_.groups[session.collective].alternatives[*session.share].demands;
      out.pair = problem_.sessions[pair[0] == i ? pair[1] : pair[0]].id;
    }
    if (solution_.carried.has_value()) {
      write_streams(instance_, *solution_.carried, i, out);
      trim_to_program(out);
      out.rate_bps = carried_bps(out);
      if (is_used) add_paths(i, out);
    }
    plan_.sessions.push_back(std::move(out));
  }

  void add_paths(std::size_t i, PlanSession& out) const {
    for (const auto& [column, rate] : solution_.flows) {
      if (column.demand != i) continue;
      for (std::size_t j = 0; j < instance_.demands[i].terminals.size(); ++j) {
        if (!column.is_tree()) {
          for (const auto& [links, part] : column.paths[j]) add_path(i, j, links, part * rate, out);
        } else {
          add_path(i, j, way_in_tree(column, i, j), rate, out);
        }
      }
    }
  }

  [[nodiscard]] std::vector<int> way_in_tree(const Column& column, std::size_t i, std::size_t j) const {
    const Demand& demand = instance_.demands[i];
    const std::vector<NodeId>& into = demand.reversed ? instance_.tail : instance_.head;
    const std::vector<NodeId>& from = demand.reversed ? instance_.head : instance_.tail;
    std::vector<int> way;
    NodeId node = problem_.sessions[i].destinations[j];
    // Links come after the one that feeds them: one pass back finds the way.
    for (auto link = column.links.rbegin(); link != column.links.rend(); ++link) {
      if (into[static_cast<std::size_t>(*link)] != node) continue;
      way.push_back(*link);
      node = from[static_cast<std::size_t>(*link)];
    }
    std::reverse(way.begin(), way.end());
    return way;
  }

  // `links` from the root on, whatever the direction of data.
  void add_path(std::size_t i, std::size_t j, const std::vector<int>& links, double rate,
                PlanSession& out) const {
    const Demand& demand = instance_.demands[i];
    PlanPath path{problem_.sessions[i].destinations[j], {problem_.sessions[i].root}, rate};
    for (const int link : links) {
      const std::vector<NodeId>& next = demand.reversed ? instance_.tail : instance_.head;
      path.nodes.push_back(next[static_cast<std::size_t>(link)]);
    }
    out.paths.push_back(std::move(path));
  }

  // The shares of a planned all-reduce tile the buffer in proportion to their rates.
  void share_bytes(std::size_t c) {
    const std::vector<Alternative>& shares = instance_.groups[c].alternatives;
    if (shares.empty() || !problem_.sessions[shares[0].demands[0]].share.has_value()) return;
    std::vector<double> rate;
    double whole = 0.0;
    for (const Alternative& share : shares) {
      double least = kUnlimited;
      for (const std::size_t i : share.demands) {
        const PlanSession& session = plan_.sessions[i];
        least = std::min(least, plan_.realised ? session.rate_bps : session.lp_rate_bps);
      }
      rate.push_back(least);
      whole += least;
    }
    const std::uint64_t bytes = problem_.scenario->collectives[c].size_bytes;
    std::uint64_t offset = 0;
    double sum = 0.0;
    for (std::size_t a = 0; a < shares.size(); ++a) {
      sum += rate[a];
      const bool last = sum >= whole * (1.0 - 1e-15) || a + 1 == shares.size();
      const auto end = last ? bytes : static_cast<std::uint64_t>(static_cast<double>(bytes) * (sum / whole));
      for (const std::size_t i : shares[a].demands) {
        plan_.sessions[i].offset_bytes = offset;
        plan_.sessions[i].size_bytes = std::max(end, offset) - offset;
      }
      offset = std::max(end, offset);
    }
  }

  // What a collective's level leaves to it when all others keep their rates.
  void add_bounds() {
    std::vector<double> cut_length(problem_.sessions.size());
    for (const PlanLevel& level : plan_.certificate.levels) {
      look_at_budget();
      std::fill(cut_length.begin(), cut_length.end(), 0.0);
      for (const PlanPacking& packing : level.packings) {
        for (const PlanPacking::Cut& cut : packing.cuts) cut_length[packing.session.index()] += cut.length;
      }
      std::vector<double> cost(plan_.collectives.size(), 0.0);
      double worth = level.budget * plan_.budget_usd_per_hour.value_or(0.0);
      for (const auto& [link, length] : level.links)
        worth += length * problem_.network.capacity_bps[link.index()];
      for (const auto& [node, length] : level.egress) worth += length * plan_.nodes[node.index()].egress_bps;
      for (const auto& [node, length] : level.ingress)
        worth += length * plan_.nodes[node.index()].ingress_bps;
      double used = 0.0;
      const auto rate_of = [&](std::size_t c) {
        return plan_.realised ? plan_.collectives[c].rate_bps : plan_.collectives[c].lp_rate_bps;
      };
      for (std::size_t c = 0; c < cost.size(); ++c) {
        if (plan_.collectives[c].sessions.empty()) continue;
        cost[c] = group_cost(instance_.groups[c], cut_length);
        used += cost[c] * rate_of(c);
      }
      if (!plan_.certificate.level_bound_bps.has_value()) plan_.certificate.level_bound_bps = level.bound_bps;
      for (std::size_t c = 0; c < cost.size(); ++c) {
        const bool stops = std::find(level.collectives.begin(), level.collectives.end(),
                                     plan_.collectives[c].id) != level.collectives.end();
        if (!stops || cost[c] <= 0.0) continue;
        const double others = used - cost[c] * rate_of(c);
        plan_.collectives[c].bound_bps = std::max(worth - others, 0.0) / cost[c];
      }
    }
  }

  const Problem& problem_;
  const Instance& instance_;
  const ExactSolution& solution_;
  Plan plan_;
};

}  // namespace

Plan write_plan(const Problem& problem, const Instance& instance, const ExactSolution& solution) {
  return Writing(problem, instance, solution).run();
}

}  // namespace square::planning
