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
  const auto members = [] { return std::vector<NodeId>{NodeId(0), NodeId(1)}; };
  for (const NodeId node : members()) CHECK(meter.note(CollectiveId(0), node, 1e6, now, members));
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

TEST_CASE("what a node says of collectives that it has no part in is not counted") {
  Plan plan;
  plan.nodes = {{"a"}, {"b"}, {"other"}};
  for (const std::uint32_t id : {0U, 1U}) {
    plan.collectives.push_back(
        {.id = CollectiveId(id), .tenant = "alice", .group = "g", .sessions = {SessionId(id)}});
    plan.sessions.push_back(
        {.id = SessionId(id), .collective = CollectiveId(id), .members = {NodeId(0), NodeId(1)}});
  }
  const std::vector<TenantUses> tenants = {TenantUses{{{CollectiveId(0)}}, {{CollectiveId(1)}}}};
  DemandMeter meter;
  Seldom told;
  TimePoint now{};
  const auto says = [&](const std::string& node, std::uint32_t collective, std::uint64_t bytes) {
    v1::Heartbeat beat;
    v1::CollectiveUse& use = *beat.add_used();
    use.set_collective(collective);
    use.set_bytes(bytes);
    note_uses(node, beat, plan, meter, now, told);
  };
  for (int i = 0; i < 20; ++i) {
    now += 1s;
    for (const char* const node : {"a", "b"}) says(node, 0, 1'000'000);
    says("other", 1, 1'000'000'000);
    says("nobody", 1, 1'000'000'000);
    says("a", 7, 1);
    (void)meter.update(tenants, now);
  }
  CHECK(meter.update(tenants, now) == DemandWeights{{CollectiveId(1), kLeastDemandWeight}});
}
