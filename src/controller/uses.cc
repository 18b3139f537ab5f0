#include "controller/uses.h"

#include <algorithm>
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

}  // namespace

void note_uses(const v1::Heartbeat& beat, const Plan& plan, DemandMeter& meter, TimePoint now) {
  for (const v1::CollectiveUse& use : beat.used()) {
    const CollectiveId collective(use.collective());
    const PlanCollective* const planned = plan.find_collective(collective);
    if (planned == nullptr || planned->sessions.empty()) continue;
    // Every member tells of the same operations.
    const PlanSession* const session = plan.find_session(planned->sessions.front());
    meter.note(collective, static_cast<double>(use.bytes()) / static_cast<double>(session->members.size()),
               now);
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
