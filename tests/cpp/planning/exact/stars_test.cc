// Straight from roots to members: where arithmetic says that it is the optimum, it is that of the program.
#include "planning/exact/stars.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

// A mesh of equal links, perhaps with one that has more or less, and collectives over all nodes.
Scenario alike(std::uint64_t number, std::size_t nodes, bool has_odd_link) {
  Drawing drawing(number);
  Scenario scenario;
  scenario.policy.name = "exact";
  std::vector<NodeId> ids;
  for (std::size_t v = 0; v < nodes; ++v)
    ids.push_back(scenario.topology.add_node({.name = fmt::format("n{}", v)}).value());
  for (const NodeId from : ids) {
    for (const NodeId to : ids) {
      LinkProperties link;
      link.capacity_bps = has_odd_link && from == ids[0] && to == ids[1] ? 5e6 : 10e6;
      if (from != to) REQUIRE(scenario.topology.add_link(from, to, link).is_ok());
    }
  }
  for (std::uint32_t c = 0; c < 1 + drawing.below(3); ++c) {
    const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll};
    CollectiveSpec spec;
    spec.id = CollectiveId(c);
    spec.tenant = fmt::format("tenant {}", c);
    spec.op = ops[drawing.below(4)];
    spec.members = ids;
    spec.weight = 0.5 + drawing.number();
    scenario.tenants.push_back({spec.tenant});
    scenario.collectives.push_back(std::move(spec));
  }
  return scenario;
}

TEST_CASE("stars on equal links carry what the program over trees allows") {
  for (std::uint64_t k = 0; k < 40; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(alike(seed() + k, 3 + k % 5, false));
    const std::optional<StarsAnswer> answer = carry_by_stars(made.instance);
    REQUIRE(answer.has_value());
    std::vector<double> rate;
    for (const Group& group : made.instance.groups) rate.push_back(group.weight * answer->level);
    check_against_trees(made.instance, rate);
    CHECK(answer->proof.bound == doctest::Approx(answer->level).epsilon(1e-9));
  }
}

TEST_CASE("stars are no answer where a link has less, or a root sends to all alone") {
  CHECK_FALSE(carry_by_stars(ReadScenario(alike(seed(), 5, true)).instance).has_value());
  Scenario broadcast = alike(seed(), 5, false);
  broadcast.collectives.resize(1);
  broadcast.collectives[0].op = CollectiveOp::kBroadcast;
  broadcast.collectives[0].root = NodeId(0);
  CHECK_FALSE(carry_by_stars(ReadScenario(std::move(broadcast)).instance).has_value());
}

TEST_CASE("plans of 64 members by stars are sound") {
  const Result<PlanResult> result = make_plan(alike(seed(), 64, false));
  REQUIRE(result.is_ok());
  CHECK(find_violations(result->plan).empty());
  for (const PlanSession& session : result->plan.sessions) CHECK(session.streams.size() == 1);
}

}  // namespace
}  // namespace square::planning
