#include "planning/plan/parts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

// Of the sessions of a collective: the slowest for its part of the bytes; or, where shares
// are reduced and multicast, what all shares get through both.
double rate_of(const Problem& problem, std::size_t collective, const std::vector<double>& session_bps) {
  double rate = kUnlimited;
  std::vector<double> shares;
  for (const std::size_t i : problem.sessions_of[collective]) {
    const Session& session = problem.sessions[i];
    if (!session.share.has_value()) {
      rate = std::min(rate, session_bps[i] / session.fraction);
      continue;
    }
    if (*session.share >= shares.size()) shares.resize(*session.share + 1, kUnlimited);
    shares[*session.share] = std::min(shares[*session.share], session_bps[i]);
  }
  if (shares.empty()) return rate;
  double sum = 0.0;
  for (const double share : shares) sum += share;
  return sum;
}

// What the session's streams put on links; `used`, if asked for, gets those that had nothing.
void add_load(const Problem& problem, const PlanSession& session, std::vector<double>& load,
              std::vector<std::size_t>* used = nullptr) {
  look_at_budget();
  for (const PlanStream& stream : session.streams) {
    for (const auto& [from, to] : stream.links) {
      const std::size_t e = problem.topology().find_link(from, to)->index();
      if (used != nullptr && load[e] == 0.0) used->push_back(e);
      load[e] += stream.rate_bps;
    }
  }
}

}  // namespace

void add_overlay(const Problem& problem, Plan& plan) {
  const Topology& topology = problem.topology();
  for (std::size_t v = 0; v < topology.node_count(); ++v) {
    const TopologyNode& node = topology.node(NodeId(static_cast<std::uint32_t>(v)));
    plan.nodes.push_back({node.name, node.egress_bps, node.ingress_bps});
  }
  for (std::size_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
    plan.links.push_back({link.from, link.to, link.properties.capacity_bps, 0.0, link.properties.latency,
                          link.properties.price_usd_per_gb});
    plan.links.back().most_bps = link.properties.most_bps;
  }
}

PlanSession plan_session(const Problem& problem, const Session& session) {
  PlanSession out;
  out.id = session.id;
  out.collective = problem.scenario->collectives[session.collective].id;
  out.kind = session.kind;
  out.root = session.root;
  out.members = {session.root};
  out.members.insert(out.members.end(), session.destinations.begin(), session.destinations.end());
  out.offset_bytes = session.offset_bytes;
  out.size_bytes = session.size_bytes;
  return out;
}

void add_collectives(const Problem& problem, Plan& plan) {
  std::vector<double> rates;
  std::vector<double> lp_rates;
  for (const PlanSession& session : plan.sessions) {
    rates.push_back(session.rate_bps);
    lp_rates.push_back(session.lp_rate_bps);
  }
  for (std::size_t c = 0; c < problem.weight.size(); ++c) {
    const CollectiveSpec& spec = problem.scenario->collectives[c];
    PlanCollective out;
    out.id = spec.id;
    out.tenant = spec.tenant;
    out.group = spec.group;
    out.op = spec.op;
    out.weight = problem.weight[c];
    out.size_bytes = spec.size_bytes;
    out.lp_rate_bps = rate_of(problem, c, lp_rates);
    out.rate_bps = rate_of(problem, c, rates);
    for (const std::size_t i : problem.sessions_of[c]) out.sessions.push_back(problem.sessions[i].id);
    // Without sessions there is nothing to send: no limit, and no time.
    out.bound_bps = kUnlimited;
    out.completion_seconds =
        out.rate_bps > 0.0 ? kBitsPerByte * static_cast<double>(spec.size_bytes) / out.rate_bps : kUnlimited;
    plan.collectives.push_back(std::move(out));
  }
}

std::vector<std::vector<double>> loads_by_collective(const Problem& problem, const Plan& plan) {
  std::vector<std::vector<double>> loads;
  for (const auto& sessions : problem.sessions_of) {
    std::vector<double>& load = loads.emplace_back(plan.links.size(), 0.0);
    for (const std::size_t i : sessions) add_load(problem, plan.sessions[i], load);
  }
  return loads;
}

void add_loads(const Problem& problem, Plan& plan) {
  std::vector<double> load(plan.links.size(), 0.0);  // of one collective
  std::vector<double> turn_load(plan.links.size(), 0.0);
  std::vector<double> most(plan.links.size(), 0.0);  // of one job
  std::vector<std::size_t> used;
  for (const Problem::Job& job : problem.jobs) {
    std::set<std::size_t> used_by_job;
    for (const std::vector<std::size_t>& turn : job.turns) {
      std::set<std::size_t> used_by_turn;
      for (const std::size_t c : turn) {
        used.clear();
        for (const std::size_t i : problem.sessions_of[c]) add_load(problem, plan.sessions[i], load, &used);
        std::sort(used.begin(), used.end());
        for (const std::size_t e : used) {
          const double bps = std::exchange(load[e], 0.0);
          turn_load[e] += bps;
          plan.collectives[c].cost_usd_per_hour += bps * plan.links[e].price_usd_per_gb * kUsdPerHour;
        }
        used_by_turn.insert(used.begin(), used.end());
      }
      for (const std::size_t e : used_by_turn) most[e] = std::max(most[e], std::exchange(turn_load[e], 0.0));
      used_by_job.merge(used_by_turn);
    }
    for (const std::size_t e : used_by_job) plan.links[e].load_bps += std::exchange(most[e], 0.0);
  }
  for (const PlanCollective& collective : plan.collectives)
    plan.cost_usd_per_hour += collective.cost_usd_per_hour;
}

void add_sums(const Problem& problem, Plan& plan) {
  for (const TenantSpec& tenant : problem.scenario->tenants)
    plan.tenants.push_back(PlanTenant{tenant.name, tenant.weight, 0.0, tenant.open});
  // One turn of a job at a time: it counts as its fastest.
  for (const Problem::Job& job : problem.jobs) {
    double fastest = 0.0;
    for (const std::vector<std::size_t>& turn : job.turns) {
      double together = 0.0;
      for (const std::size_t c : turn) {
        if (std::isfinite(plan.collectives[c].rate_bps)) together += plan.collectives[c].rate_bps;
      }
      fastest = std::max(fastest, together);
    }
    if (job.turns.empty()) continue;
    plan.total_rate_bps += fastest;
    const std::string& name = plan.collectives[job.turns.front().front()].tenant;
    std::ranges::find(plan.tenants, name, &PlanTenant::name)->rate_bps += fastest;
  }
  std::vector<double> levels;
  double least = kUnlimited;
  for (const PlanCollective& collective : plan.collectives) {
    if (!std::isfinite(collective.rate_bps)) continue;
    least = std::min(least, collective.rate_bps);
    levels.push_back(collective.rate_bps / collective.weight);
  }
  plan.min_rate_bps = levels.empty() ? 0.0 : least;
  plan.jain = jain_index(levels);
}

}  // namespace square::planning
