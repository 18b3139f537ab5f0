// Planner: one plan after another.
#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/planning_steps.h"
#include "square/planner.h"

namespace square {
namespace {

// Rates that differ by less are the same.
constexpr double kSameRate = 1e-6;

std::map<CollectiveId, const PlanCollective*> by_id(const Plan& plan) {
  std::map<CollectiveId, const PlanCollective*> result;
  for (const PlanCollective& collective : plan.collectives) result[collective.id] = &collective;
  return result;
}

// The streams of a collective, in an order of their own.
std::vector<std::vector<std::pair<std::string, std::string>>> routes(const Plan& plan,
                                                                     const PlanCollective& collective) {
  std::vector<std::vector<std::pair<std::string, std::string>>> result;
  for (const SessionId id : collective.sessions) {
    for (const PlanStream& stream : plan.find_session(id)->streams) {
      auto& route = result.emplace_back();
      for (const auto& [from, to] : stream.links) {
        route.emplace_back(plan.nodes[from.index()].name, plan.nodes[to.index()].name);
      }
      std::sort(route.begin(), route.end());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

// What the streams carry; of a plan without streams, what they could.
double rate_of(const Plan& plan, const PlanCollective& collective) {
  return plan.realised ? collective.rate_bps : collective.lp_rate_bps;
}

std::vector<PlanChange> changes_between(const Plan& before, const Plan& after) {
  using Kind = PlanChange::Kind;
  std::vector<PlanChange> changes;
  const auto old = by_id(before);
  const auto now = by_id(after);
  for (const auto& [id, collective] : old) {
    if (!now.contains(id)) changes.push_back({id, Kind::kLeft, rate_of(before, *collective), 0.0});
  }
  for (const auto& [id, collective] : now) {
    look_at_budget();
    const auto known = old.find(id);
    if (known == old.end()) {
      changes.push_back({id, Kind::kJoined, 0.0, rate_of(after, *collective)});
      continue;
    }
    const double rate_before = rate_of(before, *known->second);
    const double rate_after = rate_of(after, *collective);
    if (rate_after > rate_before * (1.0 + kSameRate)) {
      changes.push_back({id, Kind::kFaster, rate_before, rate_after});
    } else if (rate_after < rate_before * (1.0 - kSameRate)) {
      changes.push_back({id, Kind::kSlower, rate_before, rate_after});
    } else if (routes(before, *known->second) != routes(after, *collective)) {
      changes.push_back({id, Kind::kRerouted, rate_before, rate_after});
    }
  }
  return changes;
}

// What the next plan is compared with: of a large one the proofs are most.
Plan without_proofs(Plan& plan) {
  PlanCertificate proofs = std::exchange(plan.certificate, {});
  Plan rest = plan;
  plan.certificate = std::move(proofs);
  return rest;
}

}  // namespace

struct Planner::State {
  planning::Policy& policy_of(const Scenario& scenario) {
    const planning::PolicyEntry& entry = planning::policy_of(scenario);
    std::unique_ptr<planning::Policy>& policy = policies[entry.name];
    if (policy == nullptr) policy = entry.make();
    return *policy;
  }

  // Those that were asked for, with what they remember.
  std::map<std::string_view, std::unique_ptr<planning::Policy>> policies;
  std::optional<Plan> last;
};

Planner::Planner() : state_(std::make_unique<State>()) {}
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;
Planner::~Planner() = default;

Result<PlanResult> Planner::plan(const Scenario& scenario, const PlanOptions& options) {
  return spend(options.budget, [&]() -> Result<PlanResult> {
    SQUARE_RETURN_IF_ERROR(check_scenario(scenario));
    planning::Policy& policy = state_->policy_of(scenario);
    SQUARE_ASSIGN_OR_RETURN(PlanResult result, planning::plan_with(policy, scenario, options));
    if (state_->last.has_value()) result.plan.changes = changes_between(*state_->last, result.plan);
    state_->last = without_proofs(result.plan);
    policy.start_from_last();
    return result;
  });
}

}  // namespace square
