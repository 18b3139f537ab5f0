// Planner: plans from the last one are those from nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "planning/scenarios.h"
#include "seed_step.h"
#include "square/validator.h"

namespace square::testing {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t bound) { return random() % bound; }

// Two to four members, drawn from the topology.
void join(Scenario& scenario, Random& random) {
  std::vector<NodeId> nodes = everyone(scenario.topology);
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(2 + below(random, 3));
  CollectiveSpec spec;
  std::uint32_t id = 0;
  for (const CollectiveSpec& other : scenario.collectives) id = std::max(id, other.id.value() + 1);
  spec.id = CollectiveId(id);
  spec.tenant = "t";
  const std::vector<CollectiveOp> ops = {CollectiveOp::kBroadcast, CollectiveOp::kReduce,
                                         CollectiveOp::kAllReduce, CollectiveOp::kAllGather};
  spec.op = ops[below(random, ops.size())];
  spec.root = nodes[0];
  spec.members = std::move(nodes);
  spec.size_bytes = 1'000'000;
  spec.weight = 1.0 + static_cast<double>(below(random, 3));
  scenario.collectives.push_back(std::move(spec));
}

// The topology without one link.
Topology without_link(const Topology& topology, std::size_t gone) {
  Topology left;
  for (std::uint32_t v = 0; v < topology.node_count(); ++v) {
    REQUIRE(left.add_node(topology.node(NodeId(v))).is_ok());
  }
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(e));
    if (e != gone) REQUIRE(left.add_link(link.from, link.to, link.properties).is_ok());
  }
  return left;
}

void change(Scenario& scenario, Random& random) {
  switch (below(random, 5)) {
    case 0: join(scenario, random); break;
    case 1:
      if (scenario.collectives.size() > 1) {
        const auto gone = static_cast<std::ptrdiff_t>(below(random, scenario.collectives.size()));
        scenario.collectives.erase(scenario.collectives.begin() + gone);
      }
      break;
    case 2:
      scenario.topology = without_link(scenario.topology, below(random, scenario.topology.link_count()));
      break;
    default: {
      const LinkId link(static_cast<std::uint32_t>(below(random, scenario.topology.link_count())));
      const double mbps = 1.0 + static_cast<double>(below(random, 20));
      REQUIRE(scenario.topology.set_capacity(link, mbps * kMbps).is_ok());
    }
  }
}

}  // namespace

TEST_CASE("Planner: after any change the rates are those of a plan from nothing") {
  Random random(seed());
  CAPTURE(seed());
  for (std::uint64_t sequence = 0; sequence < 12; sequence += square::test::kSeedStep) {
    Scenario scenario = scenario_on(mesh(7, random()));
    scenario.policy.name = "exact";
    for (int k = 0; k < 3; ++k) join(scenario, random);
    Planner planner;
    REQUIRE(planner.plan(scenario).is_ok());
    for (int step = 0; step < 12; ++step) {
      CAPTURE(sequence);
      CAPTURE(step);
      change(scenario, random);
      const Result<PlanResult> warm = planner.plan(scenario);
      const Result<PlanResult> cold = make_plan(scenario);
      REQUIRE(warm.is_ok() == cold.is_ok());
      if (!warm.is_ok()) break;  // a link too many is gone
      for (std::size_t c = 0; c < cold->plan.collectives.size(); ++c) {
        CHECK(warm->plan.collectives[c].lp_rate_bps ==
              doctest::Approx(cold->plan.collectives[c].lp_rate_bps).epsilon(1e-6));
        CHECK(warm->plan.collectives[c].rate_bps ==
              doctest::Approx(cold->plan.collectives[c].rate_bps).epsilon(1e-6));
      }
      const std::vector<LevelGap> gaps = certified_gaps(warm->plan).value();
      for (const LevelGap& gap : gaps) CHECK(gap.lp_gap < 1e-6);
    }
  }
}

TEST_CASE("Planner: says what changed, and nothing where nothing did") {
  Scenario scenario = scenario_on(mesh(5, seed()));
  scenario.policy.name = "exact";
  Random random(seed());
  join(scenario, random);
  join(scenario, random);
  Planner planner;
  CHECK_FALSE(planner.plan(scenario)->plan.changes.has_value());
  CHECK(planner.plan(scenario)->plan.changes.value().empty());
  const CollectiveId first = scenario.collectives[0].id;
  scenario.collectives.erase(scenario.collectives.begin());
  join(scenario, random);
  const std::vector<PlanChange> changes = planner.plan(scenario)->plan.changes.value();
  const auto kind_of = [&](CollectiveId id) {
    const auto found = std::find_if(changes.begin(), changes.end(),
                                    [&](const PlanChange& change) { return change.collective == id; });
    REQUIRE(found != changes.end());
    return found->kind;
  };
  CHECK(kind_of(first) == PlanChange::Kind::kLeft);
  CHECK(kind_of(scenario.collectives.back().id) == PlanChange::Kind::kJoined);
}

TEST_CASE("Planner: nodes that go one after another, with nobody left in between") {
  Scenario scenario = scenario_on(mesh(6, seed()));
  scenario.policy.name = "exact";
  Random random(seed());
  join(scenario, random);
  join(scenario, random);
  Planner planner;
  REQUIRE(planner.plan(scenario).is_ok());
  const auto collectives = std::exchange(scenario.collectives, {});
  for (std::size_t nodes = 5; nodes > 2; --nodes) {
    scenario.topology = mesh(nodes, seed());
    REQUIRE(planner.plan(scenario).is_ok());
  }
  scenario.topology = mesh(6, seed());
  scenario.collectives = collectives;
  const Result<PlanResult> again = planner.plan(scenario);
  REQUIRE(again.is_ok());
  CHECK(again->plan.min_rate_bps == doctest::Approx(make_plan(scenario)->plan.min_rate_bps).epsilon(1e-6));
}

TEST_CASE("Planner: plans without streams are compared by what they allow") {
  Scenario scenario = scenario_on(mesh(5, seed()));
  scenario.policy.name = "exact";
  Random random(seed());
  join(scenario, random);
  Planner planner;
  REQUIRE(planner.plan(scenario, {.streams = false}).is_ok());
  const Result<PlanResult> same = planner.plan(scenario, {.streams = false});
  REQUIRE(same.is_ok());
  CHECK(same->plan.changes.value().empty());
  CHECK(find_violations(same->plan).empty());
}

TEST_CASE("Planner: an error leaves it as it was") {
  Scenario scenario = scenario_on(mesh(4, seed()));
  scenario.policy.name = "exact";
  Random random(seed());
  join(scenario, random);
  Planner planner;
  REQUIRE(planner.plan(scenario).is_ok());
  Scenario wrong = scenario;
  wrong.policy.avoid_links.clear();
  for (std::uint32_t e = 0; e < wrong.topology.link_count(); ++e) wrong.policy.avoid_links.emplace_back(e);
  CHECK(planner.plan(wrong).status().code() == StatusCode::kFailedPrecondition);
  CHECK(planner.plan(scenario)->plan.changes.value().empty());
}

}  // namespace square::testing
