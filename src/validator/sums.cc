// Rates of collectives and tenants, costs, and what a planner says that it changed.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/plan/figures.h"
#include "square/units.h"
#include "square/validator.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

// A share may be this much longer than its rate is worth: bytes are whole.
constexpr double kRoundingBytes = 1.0;

struct Rates {
  double bps = kUnlimited;
  double lp_bps = kUnlimited;
};

// What the sessions allow: the slowest, each for its part of the bytes.
Rates rates_of_parts(const Plan& plan, const PlanCollective& collective) {
  Rates rates;
  const std::size_t n = members_of(plan, collective).size();
  for (const SessionId id : collective.sessions) {
    const PlanSession& session = *plan.find_session(id);
    const double share = share_of(collective, n, session);
    if (!(share > 0.0)) continue;  // no bytes: it holds nothing up
    rates.bps = std::min(rates.bps, session.rate_bps / share);
    rates.lp_bps = std::min(rates.lp_bps, session.lp_rate_bps / share);
  }
  return rates;
}

// A share goes as fast as the slower of its halves; shares run side by side.
Rates rates_of_shares(const Plan& plan, const PlanCollective& collective) {
  Rates rates{0.0, 0.0};
  for (const SessionId id : collective.sessions) {
    const PlanSession& session = *plan.find_session(id);
    if (session.kind != SessionKind::kReduce || !session.pair.has_value()) continue;
    const PlanSession& other = *plan.find_session(*session.pair);
    rates.bps += std::min(session.rate_bps, other.rate_bps);
    rates.lp_bps += std::min(session.lp_rate_bps, other.lp_rate_bps);
  }
  return rates;
}

// Shares are in proportion to their rates, so that all end together.
void check_proportions(const Plan& plan, const PlanCollective& collective, double rate_bps,
                       Findings& findings) {
  if (!(rate_bps > 0.0)) return;
  for (const SessionId id : collective.sessions) {
    const PlanSession& session = *plan.find_session(id);
    if (session.kind != SessionKind::kReduce || !session.pair.has_value()) continue;
    const double rate = std::min(session.rate_bps, plan.find_session(*session.pair)->rate_bps);
    const double worth = static_cast<double>(collective.size_bytes) * rate / rate_bps;
    const bool fits = rate > 0.0 ? static_cast<double>(session.size_bytes) <=
                                       worth * (1.0 + kPlanTolerance) + kRoundingBytes
                                 : session.size_bytes == 0;
    if (!fits) {
      findings.add("collective {}: the share of {} has {} bytes, its part of the rate is worth {:.3f}",
                   collective.id.value(), plan.nodes[session.root.index()].name, session.size_bytes, worth);
    }
  }
}

void check_collective_rate(const Plan& plan, const PlanCollective& collective, Findings& findings) {
  const std::uint32_t id = collective.id.value();
  const bool shares = is_planned_all_reduce(plan, collective);
  const Rates allowed = shares ? rates_of_shares(plan, collective) : rates_of_parts(plan, collective);
  if (shares) check_proportions(plan, collective, allowed.bps, findings);
  if (!about_equal(collective.rate_bps, allowed.bps)) {
    findings.add("collective {}: its rate is given as {}, its sessions allow {}", id,
                 mbps(collective.rate_bps), mbps(allowed.bps));
  }
  // As for sessions: see check_flows().
  if (plan.certificate.levels.empty() && !at_most(collective.rate_bps, collective.lp_rate_bps)) {
    findings.add("collective {}: its rate, {}, is over its lp_rate {}", id, mbps(collective.rate_bps),
                 mbps(collective.lp_rate_bps));
  }
  if (!at_most(collective.lp_rate_bps, allowed.lp_bps)) {
    findings.add("collective {}: its lp_rate is given as {}, those of its sessions allow {}", id,
                 mbps(collective.lp_rate_bps), mbps(allowed.lp_bps));
  }
  const double bits = kBitsPerByte * static_cast<double>(collective.size_bytes);
  const double seconds = allowed.bps > 0.0 ? bits / allowed.bps : kUnlimited;
  if (!about_equal(collective.completion_seconds, seconds)) {
    findings.add("collective {}: its completion is given as {} s, its rate makes it {}", id,
                 collective.completion_seconds, seconds);
  }
}

double rate_of(const Plan& plan, CollectiveId id) {
  const PlanCollective* collective = plan.find_collective(id);
  if (collective == nullptr) return 0.0;
  return plan.realised ? collective->rate_bps : collective->lp_rate_bps;
}

bool follows(const PlanChange& change) {
  switch (change.kind) {
    case PlanChange::Kind::kJoined: return change.rate_before_bps == 0.0;
    case PlanChange::Kind::kLeft: return change.rate_after_bps == 0.0;
    case PlanChange::Kind::kFaster: return change.rate_after_bps > change.rate_before_bps;
    case PlanChange::Kind::kSlower: return change.rate_after_bps < change.rate_before_bps;
    case PlanChange::Kind::kRerouted: return true;
  }
  return false;
}

void check_changes(const Plan& plan, Findings& findings) {
  if (!plan.changes.has_value()) return;
  std::set<CollectiveId> changed;
  for (const PlanChange& change : *plan.changes) {
    const std::uint32_t id = change.collective.value();
    if (!changed.insert(change.collective).second) findings.add("collective {} changed twice", id);
    const bool present = plan.find_collective(change.collective) != nullptr;
    if (present == (change.kind == PlanChange::Kind::kLeft)) {
      findings.add("collective {}: it {}, but it is {}in the plan", id, to_string(change.kind),
                   present ? "" : "not ");
    }
    const double rate = rate_of(plan, change.collective);
    if (!about_equal(change.rate_after_bps, rate)) {
      findings.add("collective {}: its rate after the change is given as {}; it is {}", id,
                   mbps(change.rate_after_bps), mbps(rate));
    }
    if (!(change.rate_before_bps >= 0.0) || !follows(change)) {
      findings.add("collective {}: it is not {} by going from {} to {}", id, to_string(change.kind),
                   mbps(change.rate_before_bps), mbps(change.rate_after_bps));
    }
  }
}

void check_headroom(const Plan& plan, Findings& findings) {
  if (!plan.headroom.has_value()) return;
  const PlanHeadroom& headroom = *plan.headroom;
  for (const double value :
       {headroom.deviations, headroom.nominal_min_rate_bps, headroom.nominal_total_rate_bps}) {
    if (!(value >= 0.0 && std::isfinite(value))) findings.add("the headroom has a figure of {}", value);
  }
}

}  // namespace

void check_sums(const Plan& plan, Findings& findings) {
  std::map<std::string_view, double> tenant_rate;
  double least = kUnlimited;
  double total = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double count = 0.0;
  const std::vector<std::size_t> job_of = number_jobs(plan);
  std::map<std::pair<std::size_t, JobTurn>, double> turn_rate;
  std::map<std::size_t, double> fastest;  // turn of a job: it is what the job counts as
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
    const PlanCollective& collective = plan.collectives[c];
    check_collective_rate(plan, collective, findings);
    if (collective.sessions.empty()) continue;  // sends nothing, so it is in no sum
    double& turn = turn_rate[{job_of[c], job_turn_of(collective.op, collective.id)}];
    turn += collective.rate_bps;
    double& most = fastest[job_of[c]];
    const double more = std::max(turn - most, 0.0);
    most += more;
    tenant_rate[collective.tenant] += more;
    least = std::min(least, collective.rate_bps);
    total += more;
    const double level = collective.rate_bps / collective.weight;
    sum += level;
    squares += level * level;
    count += 1.0;
  }
  for (const PlanTenant& tenant : plan.tenants) {
    if (!about_equal(tenant.rate_bps, tenant_rate[tenant.name])) {
      findings.add("tenant {}: its rate is given as {}, its collectives sum to {}", tenant.name,
                   mbps(tenant.rate_bps), mbps(tenant_rate[tenant.name]));
    }
  }
  if (!about_equal(plan.min_rate_bps, count > 0.0 ? least : 0.0)) {
    findings.add("the smallest rate is given as {}, the collectives make it {}", mbps(plan.min_rate_bps),
                 mbps(least));
  }
  if (!about_equal(plan.total_rate_bps, total)) {
    findings.add("the total rate is given as {}, the collectives sum to {}", mbps(plan.total_rate_bps),
                 mbps(total));
  }
  const double jain = squares > 0.0 ? sum * sum / (count * squares) : 1.0;
  if (plan.realised && !about_equal(plan.jain, jain)) {
    findings.add("Jain's index is given as {}, the collectives make it {}", plan.jain, jain);
  }
  if (!(plan.solve_seconds >= 0.0)) findings.add("the time to solve is {} s", plan.solve_seconds);
  check_changes(plan, findings);
  check_headroom(plan, findings);
}

void check_costs(const Plan& plan, Findings& findings) {
  const LinkTable links(plan);
  double total = 0.0;
  for (const PlanCollective& collective : plan.collectives) {
    double cost = 0.0;
    for (const SessionId id : collective.sessions) {
      for (const PlanStream& stream : plan.find_session(id)->streams) {
        for (const auto& [from, to] : stream.links) {
          const int link = links.find(from, to);
          if (link >= 0) cost += stream.rate_bps * hourly_price(plan.links[link]);
        }
      }
    }
    total += cost;
    if (!about_equal(collective.cost_usd_per_hour, cost)) {
      findings.add("collective {}: its cost is given as {} USD an hour, its streams make it {}",
                   collective.id.value(), collective.cost_usd_per_hour, cost);
    }
  }
  if (!about_equal(plan.cost_usd_per_hour, total)) {
    findings.add("the cost is given as {} USD an hour, the collectives sum to {}", plan.cost_usd_per_hour,
                 total);
  }
  const std::optional<double>& budget = plan.budget_usd_per_hour;
  if (budget.has_value() && !at_most(total, *budget)) {
    findings.add("the plan costs {} USD an hour, its budget is {}", total, *budget);
  }
}

}  // namespace square::validation
