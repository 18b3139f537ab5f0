#include "controller/uses.h"

#include <algorithm>
#include <set>
#include <variant>

#include "base/log.h"

namespace square::controller {
namespace {

bool ask_for_no_plan(const std::vector<const Demand*>& demands, const GroupRegistry& registry) {
  return !demands.empty() && std::ranges::all_of(demands, [&](const Demand* demand) {
    const GroupSpec* const group = std::get_if<GroupSpec>(demand);
    return group != nullptr && registry.groups().contains(group->name);
  });
}

std::vector<NodeId> members_of(const PlanCollective& collective, const Plan& plan) {
  std::set<NodeId> members;
  for (const SessionId id : collective.sessions) {
    const PlanSession* const session = plan.find_session(id);
    members.insert(session->members.begin(), session->members.end());
  }
  return {members.begin(), members.end()};
}

}  // namespace

void note_uses(const std::string& node, const v1::Heartbeat& beat, const Plan& plan, DemandMeter& meter,
               TimePoint now, Seldom& told) {
  const auto id = plan.find_node(node);
  for (const v1::CollectiveUse& use : beat.used()) {
    const CollectiveId collective(use.collective());
    const PlanCollective* const planned = plan.find_collective(collective);
    // The share of a scenario's is nobody's to change, and what stays on one node has none.
    if (planned == nullptr || planned->group.empty() || planned->sessions.empty()) continue;
    const auto members = [&] { return members_of(*planned, plan); };
    if (id && meter.note(collective, *id, static_cast<double>(use.bytes()), now, members)) continue;
    log_seldom(told, node, {.component = "controller", .node = node, .collective = collective},
               "node {} says that it uses collective {} of tenant {}, which it has no part in: not counted",
               node, collective.value(), planned->tenant);
  }
}

bool absorb_uses(DemandMeter& meter, PlanningState& state, const std::vector<const Demand*>& demands,
                 TimePoint now) {
  if (ask_for_no_plan(demands, state.registry)) return false;
  const DemandWeights& weights = meter.update(state.registry.collectives_by_tenant(), now);
  if (weights == state.demand) return false;
  state.demand = weights;
  log(LogLevel::kInfo, "controller", "groups are used in other parts than before: plans again");
  return true;
}

}  // namespace square::controller
