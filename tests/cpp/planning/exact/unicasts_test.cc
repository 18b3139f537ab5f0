// Many unicasts by pairs of nodes, against the program with a row for each of them.
#include "planning/exact/unicasts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "seed_step.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

// Several between the same two nodes, of tenants with other weights; now and then an all-to-all beside them.
Scenario unicasts(std::uint64_t number, std::size_t nodes, std::size_t count) {
  Drawing drawing(number);
  Scenario scenario;
  scenario.policy.name = "exact";
  const std::vector<NodeId> ids = drawing.add_overlay(scenario.topology, nodes);
  for (std::size_t c = 0; c < count; ++c) {
    CollectiveSpec spec;
    spec.id = CollectiveId(static_cast<std::uint32_t>(c));
    spec.tenant = fmt::format("tenant {}", c % 5);
    spec.op = c == 0 && drawing.number() < 0.3 ? CollectiveOp::kAllToAll : CollectiveOp::kBroadcast;
    spec.members = ids;
    const std::size_t from = drawing.below(nodes);
    const std::size_t to = (from + 1 + drawing.below(nodes - 1)) % nodes;
    if (spec.op == CollectiveOp::kBroadcast) {
      spec.members = {ids[from], ids[to]};
      spec.root = ids[from];
    }
    spec.weight = drawing.number() < 0.5 ? 1.0 : 0.25 + drawing.number();
    if (c < 5) scenario.tenants.push_back({spec.tenant});
    scenario.collectives.push_back(std::move(spec));
  }
  return scenario;
}

TEST_CASE("rates by pairs are those of the program over sessions, and their proofs hold") {
  for (std::uint64_t k = 0; k < 200; k += square::test::kSeedStep) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(unicasts(seed() + k, 4 + k % 5, 5 + k % 30));
    const Instance& instance = made.instance;
    const auto answer = plan_unicasts(instance);
    REQUIRE(answer.is_ok());
    REQUIRE(answer->has_value());
    check_against_trees(instance, (*answer)->rate);
    for (std::size_t c = 0; c < (*answer)->rate.size(); ++c) {
      CAPTURE(c);
      for (const std::size_t i : instance.groups[c].alternatives.front().demands) {
        double carried = 0.0;
        for (const Carried::Tree& way : (*answer)->carried.trees[i]) carried += way.rate;
        const double fraction = instance.groups[c].alternatives.front().fractions.front();
        CHECK(carried == doctest::Approx(fraction * (*answer)->rate[c]).epsilon(1e-6));
      }
    }
    for (const ProvenLevel& level : (*answer)->levels)
      CHECK(level.proof.bound == doctest::Approx(level.level).epsilon(1e-6));
  }
}

TEST_CASE("plans of many unicasts are sound") {
  for (std::uint64_t k = 0; k < 5; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const Result<PlanResult> result = make_plan(unicasts(seed() + 500 + k, 12, 600));
    CAPTURE(result.status().to_string());
    REQUIRE(result.is_ok());
    CHECK(find_violations(result->plan).empty());
  }
}

TEST_CASE("pairs are for sessions with one member to reach") {
  Scenario scenario = unicasts(seed(), 5, 10);
  scenario.collectives.back().op = CollectiveOp::kBroadcast;
  scenario.collectives.back().members = {NodeId(0), NodeId(1), NodeId(2)};
  scenario.collectives.back().root = NodeId(0);
  CHECK_FALSE(plan_unicasts(ReadScenario(std::move(scenario)).instance).value().has_value());
}

}  // namespace
}  // namespace square::planning
