// Plans on top of others. SQUARE_SEED reruns the random ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "planning/planning_steps.h"
#include "planning/scenarios.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;

using Links = std::set<std::pair<NodeId, NodeId>>;

constexpr int kOverlays = 30;

Scenario random_scenario(std::mt19937_64& random) {
  const std::size_t n = 4 + random() % 6;
  Scenario scenario = scenario_on(mesh(n, random()));
  scenario.policy.name = "exact";
  return scenario;
}

void add_random(Scenario& scenario, std::uint32_t id, std::mt19937_64& random) {
  CollectiveSpec spec;
  spec.id = CollectiveId(id);
  spec.tenant = "t";
  spec.op = random() % 2 == 0 ? CollectiveOp::kBroadcast : CollectiveOp::kAllReduce;
  spec.size_bytes = 1'000'000;
  const std::size_t first = random() % scenario.topology.node_count();
  for (std::size_t v = 0; v < scenario.topology.node_count(); ++v) {
    if (v == first || v == (first + 1) % scenario.topology.node_count() || random() % 4 == 0)
      spec.members.push_back(node(v));
  }
  spec.root = spec.members.front();
  scenario.collectives.push_back(spec);
}

Plan quick(const Scenario& scenario) {
  auto made = make_quick_plan(scenario);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  return std::move(made->plan);
}

// A link or a limit of a node that somebody new, or somebody with whom it shares a collective, uses.
Links links_of(const Plan& plan, CollectiveId collective) {
  Links links;
  for (const PlanSession& session : plan.sessions) {
    if (session.collective != collective) continue;
    for (const PlanStream& stream : session.streams) links.insert(stream.links.begin(), stream.links.end());
  }
  return links;
}

bool have_common(const Links& a, const Links& b) {
  return std::ranges::any_of(a, [&](const auto& link) { return b.contains(link); });
}

std::vector<PlanStream> streams_of(const Plan& plan, CollectiveId collective) {
  std::vector<PlanStream> streams;
  for (const PlanSession& session : plan.sessions) {
    if (session.collective == collective)
      streams.insert(streams.end(), session.streams.begin(), session.streams.end());
  }
  return streams;
}

bool are_equal(const std::vector<PlanStream>& a, const std::vector<PlanStream>& b) {
  return std::ranges::equal(a, b, [](const PlanStream& x, const PlanStream& y) {
    return x.links == y.links && x.rate_bps == y.rate_bps;
  });
}

// One that goes and one that comes, again and again.
void check_changes(std::mt19937_64& random, const std::string& label) {
  Scenario scenario = random_scenario(random);
  std::uint32_t next = 3;
  for (; next < 13; ++next) add_random(scenario, next, random);
  Plan base = quick(scenario);
  for (int change = 0; change < 10; ++change) {
    const CollectiveId fresh(next);
    scenario.collectives.erase(scenario.collectives.begin() +
                               static_cast<std::ptrdiff_t>(random() % scenario.collectives.size()));
    add_random(scenario, next++, random);
    std::optional<PlanResult> made = planning::extended_plan(scenario, base);
    REQUIRE_MESSAGE(made.has_value(), label);
    const Plan& plan = made->plan;
    CHECK(plan.provisional);
    CHECK_MESSAGE(find_violations(plan) == std::vector<std::string>(), label);
    const Links used = links_of(plan, fresh);
    const double part = plan.find_collective(fresh)->rate_bps;
    CHECK_MESSAGE(part > 0, label);
    for (const CollectiveSpec& spec : scenario.collectives) {
      if (spec.id == fresh) continue;
      const auto before = streams_of(base, spec.id);
      const auto after = streams_of(plan, spec.id);
      CHECK(plan.find_collective(spec.id)->rate_bps > 0);
      // Even: it takes at most as much as it gets itself on the links that it shares.
      if (!have_common(used, links_of(base, spec.id))) CHECK_MESSAGE(are_equal(before, after), label);
    }
    base = plan;
  }
}

TEST_CASE("a collective that got nothing gets a part on top of the plan") {
  Scenario scenario = scenario_on(mesh(4, seed()));
  scenario.policy.name = "exact";
  for (std::uint32_t id = 0; id < 3; ++id) {
    CollectiveSpec& spec = scenario.collectives.emplace_back();
    spec.id = CollectiveId(id);
    spec.tenant = "t";
    spec.members = {node(0), node(1), node(2)};
  }
  Plan base = quick(scenario);
  for (PlanCollective& collective : base.collectives) {
    if (collective.id == CollectiveId(1)) collective.rate_bps = 0;
  }
  for (PlanSession& session : base.sessions) {
    if (session.collective == CollectiveId(1)) session.streams.clear();
  }
  const std::optional<PlanResult> made = planning::extended_plan(scenario, base);
  REQUIRE(made.has_value());
  CHECK(made->plan.find_collective(CollectiveId(1))->rate_bps > 0);
}

TEST_CASE("what shares no link with what is new keeps its rates, over many changes") {
  std::mt19937_64 random(seed());
  for (int k = 0; k < kOverlays; ++k)
    check_changes(random, fmt::format("overlay {}, SQUARE_SEED={}", k, seed()));
}

TEST_CASE("a policy's own plan is extended, too") {
  std::mt19937_64 random(seed());
  Scenario scenario = random_scenario(random);
  for (std::uint32_t id = 0; id < 4; ++id) add_random(scenario, id, random);
  const Plan own = planned(scenario).plan;
  add_random(scenario, 9, random);
  const auto made = planning::extended_plan(scenario, own);
  REQUIRE(made.has_value());
  CHECK(find_violations(made->plan) == std::vector<std::string>());
  CHECK(made->plan.certificate.levels.empty());
}

TEST_CASE("two on one link have half of it each; who goes leaves the rest where it is") {
  Scenario scenario = scenario_on(named_nodes({"a", "b", "c"}));
  link(scenario.topology, "a", "b", 80);
  link(scenario.topology, "b", "c", 30);
  scenario.policy.name = "exact";
  const auto broadcast = [&](std::uint32_t id, std::size_t from, std::size_t to) {
    CollectiveSpec spec;
    spec.id = CollectiveId(id);
    spec.tenant = "t";
    spec.members = {node(from), node(to)};
    spec.root = node(from);
    spec.size_bytes = 1'000;
    scenario.collectives.push_back(spec);
  };
  broadcast(1, 0, 1);
  broadcast(2, 1, 2);
  const Plan base = quick(scenario);
  broadcast(3, 0, 1);
  const auto both = planning::extended_plan(scenario, base);
  REQUIRE(both.has_value());
  CHECK(both->plan.find_collective(CollectiveId(1))->rate_bps == doctest::Approx(40 * kMbps));
  CHECK(both->plan.find_collective(CollectiveId(2))->rate_bps ==
        base.find_collective(CollectiveId(2))->rate_bps);
  CHECK(both->plan.find_collective(CollectiveId(3))->rate_bps == doctest::Approx(40 * kMbps));
  scenario.collectives.erase(scenario.collectives.begin());
  const auto one = planning::extended_plan(scenario, both->plan);
  REQUIRE(one.has_value());
  CHECK(one->plan.find_collective(CollectiveId(3))->rate_bps ==
        both->plan.find_collective(CollectiveId(3))->rate_bps);
  broadcast(4, 0, 1);
  const auto again = planning::extended_plan(scenario, one->plan);
  REQUIRE(again.has_value());
  CHECK(again->plan.find_collective(CollectiveId(4))->rate_bps == doctest::Approx(40 * kMbps));
}

TEST_CASE("another overlay, another policy, or more that is new than old, has a plan of its own") {
  std::mt19937_64 random(seed());
  Scenario scenario = random_scenario(random);
  for (std::uint32_t id = 0; id < 4; ++id) add_random(scenario, id, random);
  const Plan base = quick(scenario);
  REQUIRE(planning::extended_plan(scenario, base).has_value());
  Scenario other = scenario;
  other.policy.avoid_links = {LinkId(0)};
  CHECK_FALSE(planning::extended_plan(other, base).has_value());
  other = scenario;
  REQUIRE(draw_capacities(other.topology, 10 * kMbps, 1 * kMbps, 99, false).is_ok());
  CHECK_FALSE(planning::extended_plan(other, base).has_value());
  other = scenario;
  other.policy.name = "square";
  CHECK_FALSE(planning::extended_plan(other, base).has_value());
  other = scenario;
  for (std::uint32_t id = 10; id < 16; ++id) add_random(other, id, random);
  CHECK_FALSE(planning::extended_plan(other, base).has_value());
}

}  // namespace
}  // namespace square
