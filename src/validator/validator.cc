#include "square/validator.h"

#include <algorithm>
#include <cmath>

#include "square/units.h"
#include "validator/checks.h"

namespace square {
namespace validation {
namespace {

constexpr double kUnmeasuredLinkBps = 1e9;
constexpr double kSecondsPerHour = 3600.0;
constexpr double kBytesPerGb = 1e9;

}  // namespace

bool about_equal(double a, double b) {
  if (a == b) return true;  // infinite ones too
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= kPlanTolerance * std::max(std::abs(a), std::abs(b));
}

bool at_most(double a, double b) { return a <= b || about_equal(a, b); }

std::string mbps(double bps) {
  return bps == kUnlimited ? "unlimited" : fmt::format("{:.10g} Mbit/s", bps_to_mbps(bps));
}

double hourly_price(const PlanLink& link) {
  return link.price_usd_per_gb * kSecondsPerHour / (kBitsPerByte * kBytesPerGb);
}

std::vector<double> counted_capacities(const Plan& plan) {
  double lowest = kUnlimited;
  for (const PlanLink& link : plan.links) {
    if (link.capacity_bps > 0.0) lowest = std::min(lowest, link.capacity_bps);
  }
  const double unlimited = std::isfinite(lowest) ? lowest : kUnmeasuredLinkBps;
  std::vector<double> capacities;
  for (const PlanLink& link : plan.links) {
    capacities.push_back(std::isfinite(link.capacity_bps) ? link.capacity_bps : unlimited);
  }
  return capacities;
}

LinkTable::LinkTable(const Plan& plan) : out_(plan.nodes.size()) {
  for (std::size_t e = 0; e < plan.links.size(); ++e) {
    out_[plan.links[e].from.index()].emplace_back(plan.links[e].to, static_cast<int>(e));
  }
  for (auto& links : out_) std::sort(links.begin(), links.end());
}

int LinkTable::find(NodeId from, NodeId to) const {
  if (from.index() >= out_.size()) return -1;
  const auto& links = out_[from.index()];
  const auto found = std::lower_bound(links.begin(), links.end(), std::pair<NodeId, int>(to, -1));
  return found != links.end() && found->first == to ? found->second : -1;
}

std::vector<double> kept_rates(const Plan& plan) {
  std::vector<double> kept;
  for (const PlanCollective& collective : plan.collectives) {
    kept.push_back(plan.realised ? collective.rate_bps : collective.lp_rate_bps);
  }
  return kept;
}

bool copies_payload(CollectiveOp op) {
  return op == CollectiveOp::kBroadcast || op == CollectiveOp::kAllGather;
}

bool is_planned_all_reduce(const Plan& plan, const PlanCollective& collective) {
  return collective.op == CollectiveOp::kAllReduce &&
         std::any_of(collective.sessions.begin(), collective.sessions.end(),
                     [&](SessionId id) { return plan.find_session(id)->pair.has_value(); });
}

std::vector<NodeId> members_of(const Plan& plan, const PlanCollective& collective) {
  std::vector<NodeId> members;
  for (const SessionId id : collective.sessions) {
    const PlanSession* session = plan.find_session(id);
    members.insert(members.end(), session->members.begin(), session->members.end());
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

double share_of(const PlanCollective& collective, std::size_t n, const PlanSession& session) {
  if (collective.size_bytes >= n && collective.size_bytes > 0) {
    return static_cast<double>(session.size_bytes) / static_cast<double>(collective.size_bytes);
  }
  const auto members = static_cast<double>(n);
  switch (collective.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kReduce: return 1.0;
    case CollectiveOp::kAllReduce: return 2.0 * (members - 1.0) / members;
    default: return 1.0 / members;
  }
}

}  // namespace validation

std::vector<std::string> find_violations(const Plan& plan) {
  validation::Findings findings;
  const validation::References sound = validation::check_references(plan, findings);
  if (sound.plan) {
    validation::check_flows(plan, findings);
    check_codes(plan, findings);
    if (findings.count() == 0) validation::check_redundancy(plan, findings);
    validation::check_restrictions(plan, findings);
    validation::check_sums(plan, findings);
    validation::check_costs(plan, findings);
    validation::check_ranges(plan, findings);
  }
  if (sound.plan && sound.certificate) {
    validation::check_certificate(plan, findings);
    validation::check_levels(plan, findings);
  }
  return std::move(findings).take();
}

Status validate(const Plan& plan) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> violations = find_violations(plan);
  if (violations.empty()) return Status::ok();
  std::string message =
      fmt::format("the plan breaks {} rule{}", violations.size(), violations.size() == 1 ? "" : "s");
  for (std::size_t v = 0; v < std::min(kShown, violations.size()); ++v) {
    message += (v == 0 ? ": " : "; ") + violations[v];
  }
  return invalid_argument(std::move(message));
}

}  // namespace square
