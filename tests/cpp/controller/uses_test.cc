// When other use of collectives brings another plan.
#include "controller/uses.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;

namespace {

GroupSpec group(const std::string& name) {
  return {name, "alice", {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
}

}  // namespace

TEST_CASE("who joins a group that is planned waits for no plan that is about use; the next one brings it") {
  Scenario scenario;
  scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {});
  PlanningState state{"", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
  REQUIRE(state.registry.add(group("used"), state.topology).is_ok());
  REQUIRE(state.registry.add(group("idle"), state.topology).is_ok());
  DemandMeter meter;
  TimePoint now{};
  CHECK_FALSE(absorb_uses(meter, state, {}, now));
  now += kDemandIdle + 1s;
  meter.note(CollectiveId(0), 1e6, now);
  const Demand joining = group("idle");
  const Demand founding = group("another");
  const Demand policy = PolicySpec{};
  CHECK_FALSE(absorb_uses(meter, state, {&joining}, now));
  CHECK_FALSE(absorb_uses(meter, state, {&joining, &joining}, now));
  CHECK(state.demand.empty());
  for (const std::vector<const Demand*>& demands :
       std::vector<std::vector<const Demand*>>{{}, {&founding}, {&joining, &founding}, {&joining, &policy}}) {
    PlanningState trial = state;
    DemandMeter same = meter;
    CHECK(absorb_uses(same, trial, demands, now));
    CHECK(trial.demand == DemandWeights{{CollectiveId(1), kLeastDemandWeight}});
    CHECK_FALSE(absorb_uses(same, trial, demands, now));
  }
}
