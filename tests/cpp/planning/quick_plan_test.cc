// Plans that fit, in milliseconds.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "planning/problem/problem.h"
#include "planning/quick/filling.h"
#include "planning/scenarios.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;

Scenario exactly_on(Topology topology) {
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy.name = "exact";
  return scenario;
}

Plan checked(const Scenario& scenario) {
  Result<PlanResult> result = make_quick_plan(scenario);
  INFO(result.status().to_string());
  REQUIRE(result.is_ok());
  CHECK(result->plan.provisional);
  CHECK(find_violations(result->plan) == std::vector<std::string>());
  return std::move(result->plan);
}

// A strongly connected overlay: a ring, and other links at random; some nodes with limits.
Topology random_overlay(std::size_t n, std::mt19937_64& random) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < n; ++v) names.push_back(fmt::format("n{:02}", v));
  Topology topology;
  std::uniform_real_distribution<double> mbps(5.0, 50.0);
  for (const std::string& name : names) {
    TopologyNode node{name};
    if (random() % 3 == 0) node.egress_bps = mbps(random) * kMbps;
    if (random() % 4 == 0) node.ingress_bps = mbps(random) * kMbps;
    REQUIRE(topology.add_node(node).is_ok());
  }
  const auto join = [&](std::size_t a, std::size_t b) {
    LinkProperties properties{mbps(random) * kMbps};
    properties.latency = std::chrono::milliseconds(random() % 100);
    REQUIRE(topology.add_link(names[a], names[b], properties).is_ok());
  };
  for (std::size_t v = 0; v < n; ++v) {
    join(v, (v + 1) % n);
    for (std::size_t u = 0; u < n; ++u) {
      if (u != v && u != (v + 1) % n && random() % 5 < 2) join(v, u);
    }
  }
  return topology;
}

std::vector<NodeId> some_nodes(std::size_t count, std::size_t n, std::mt19937_64& random) {
  std::vector<NodeId> nodes;
  for (std::size_t v = 0; v < n; ++v) nodes.push_back(node(v));
  std::shuffle(nodes.begin(), nodes.end(), random);
  nodes.resize(count);
  return nodes;
}

Scenario numbered_scenario(std::uint64_t number) {
  static constexpr std::array kOps = {CollectiveOp::kBroadcast, CollectiveOp::kAllGather,
                                      CollectiveOp::kScatter,   CollectiveOp::kGather,
                                      CollectiveOp::kAllToAll,  CollectiveOp::kAllReduce,
                                      CollectiveOp::kReduce,    CollectiveOp::kReduceScatter};
  std::mt19937_64 random(number);
  const std::size_t n = 4 + random() % 7;
  Scenario scenario = exactly_on(random_overlay(n, random));
  const std::size_t count = 1 + random() % 5;
  for (std::size_t c = 0; c < count; ++c) {
    CollectiveSpec& spec =
        add_collective(scenario, kOps[random() % kOps.size()], some_nodes(2 + random() % (n - 1), n, random));
    spec.weight = 1.0 + static_cast<double>(random() % 3);
    if (random() % 4 > 0) spec.algorithm = AllReduceAlgorithm::kPlanned;
  }
  if (random() % 4 == 0) scenario.policy.max_streams = 1 + random() % 3;
  return scenario;
}

double least_level(const Plan& plan) {
  double least = kUnlimited;
  for (const PlanCollective& collective : plan.collectives) {
    if (!collective.sessions.empty()) least = std::min(least, collective.rate_bps / collective.weight);
  }
  return least;
}

TEST_CASE("quick plans of random overlays are sound, and a good part of the exact level") {
  constexpr std::uint64_t kScenarios = 60;
  constexpr double kLeast = 0.4;  // seen 0.67 and 0.98: docs/planning.md
  constexpr double kOnAverage = 0.85;
  double sum = 0.0;
  double worst = 1.0;
  for (std::uint64_t k = 0; k < kScenarios; ++k) {
    CAPTURE(seed() + k);
    const Scenario scenario = numbered_scenario(seed() + k);
    const double part = least_level(checked(scenario)) / least_level(planned(scenario).plan);
    // With few streams a session the exact policy leaves out trees, and may leave out the better ones.
    CHECK((part <= 1.0 + 1e-6 || scenario.policy.max_streams > 0));
    sum += part;
    worst = std::min(worst, part);
  }
  MESSAGE("of the exact level: worst ", worst, ", mean ", sum / kScenarios);
  CHECK(worst >= kLeast);
  CHECK(sum / kScenarios >= kOnAverage);
}

TEST_CASE("the same scenario has the same quick plan") {
  Plan first = checked(numbered_scenario(7));
  Plan second = checked(numbered_scenario(7));
  first.solve_seconds = second.solve_seconds = 0.0;
  CHECK(to_json(first) == to_json(second));
}

TEST_CASE("one link, two weights: filling is exact") {
  Topology topology = named_nodes({"a", "b", "c"});
  link(topology, "a", "b", 9);
  link(topology, "b", "c", 2);
  Scenario scenario = exactly_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)}).weight = 2.0;
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1), node(2)});
  const Plan plan = checked(scenario);
  // The second stops at b-c; the first has what is left of a-b.
  CHECK(plan.collectives[1].rate_bps == doctest::Approx(2 * kMbps));
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(7 * kMbps));
}

TEST_CASE("what the policy avoids is avoided, and what cannot be is refused") {
  Topology topology = named_nodes({"a", "b", "r"});
  link(topology, "a", "b", 1);
  link(topology, "a", "r", 100);
  link(topology, "r", "b", 100);
  Scenario scenario = exactly_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
  CHECK(checked(scenario).min_rate_bps > 50 * kMbps);
  Scenario no_relay = scenario;
  no_relay.policy.avoid_nodes = {node(2)};
  CHECK(checked(no_relay).min_rate_bps == doctest::Approx(1 * kMbps));
  Scenario no_link = scenario;
  no_link.policy.avoid_links = {*scenario.topology.find_link(node(0), node(1))};
  const Plan around = checked(no_link);
  CHECK(around.sessions[0].streams.size() == 1);
  CHECK(around.sessions[0].streams[0].links.size() == 2);
  no_link.policy.avoid_nodes = {node(2)};
  CHECK(make_quick_plan(no_link).status().code() == StatusCode::kFailedPrecondition);
  Scenario cheap = scenario;
  cheap.policy.objective = Objective::kCost;
  cheap.collectives[0].required_bps = 1 * kMbps;
  CHECK(make_quick_plan(cheap).status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("bounds on latency and a budget hold in quick plans") {
  Topology topology = named_nodes({"a", "b", "r"});
  const auto join = [&](const char* from, const char* to, double mbps, int ms) {
    LinkProperties properties{mbps * kMbps, std::chrono::milliseconds(ms)};
    properties.price_usd_per_gb = 0.1;
    REQUIRE(topology.add_link(from, to, properties).is_ok());
  };
  join("a", "b", 1, 10);
  join("a", "r", 100, 10);
  join("r", "b", 100, 10);
  Scenario scenario = exactly_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)}).max_latency = {
      Duration::max(), std::chrono::milliseconds(15)};
  CHECK(checked(scenario).min_rate_bps == doctest::Approx(1 * kMbps));
  scenario.collectives[0].max_latency.clear();
  scenario.policy.budget_usd_per_hour = 0.5;
  const Plan plan = checked(scenario);
  CHECK(plan.cost_usd_per_hour <= 0.5 * (1 + 1e-6));
  CHECK(plan.min_rate_bps > 1 * kMbps);
}

TEST_CASE("every policy has quick plans of its own sessions") {
  for (const std::string_view policy : policy_names()) {
    CAPTURE(policy);
    Scenario scenario = scenario_on(mesh(5, seed()));
    scenario.policy.name = policy;
    add_collective(scenario, CollectiveOp::kAllGather, everyone(scenario.topology));
    const Plan plan = checked(scenario);
    CHECK(plan.policy == policy);
    CHECK(plan.sessions.size() == (policy == "mcf" ? 20 : 5));
  }
}

TEST_CASE("a planned all-reduce of 64, an all-to-all of 64, 1,000 sessions: quick plans are sound") {
  Scenario all_reduce = exactly_on(mesh(64, seed()));
  add_collective(all_reduce, CollectiveOp::kAllReduce, everyone(all_reduce.topology)).algorithm =
      AllReduceAlgorithm::kPlanned;
  Scenario all_to_all = exactly_on(mesh(64, seed()));
  add_collective(all_to_all, CollectiveOp::kAllToAll, everyone(all_to_all.topology));
  Scenario many = exactly_on(mesh(64, seed()));
  std::mt19937_64 random(seed());
  for (int c = 0; c < 1000; ++c) {
    add_collective(many, CollectiveOp::kBroadcast, some_nodes(2 + random() % 3, 64, random));
  }
  for (const Scenario* scenario : {&all_reduce, &all_to_all, &many}) {
    const Plan plan = checked(*scenario);
    std::size_t streams = 0;
    for (const PlanSession& session : plan.sessions) streams += session.streams.size();
    MESSAGE(bps_to_mbps(plan.collectives[0].rate_bps), " Mbit/s, ", streams, " streams, ",
            1e3 * plan.solve_seconds, " ms");
    CHECK(plan.min_rate_bps > 0.0);
  }
}

TEST_CASE("a quick plan can be cancelled, and says in JSON that it is provisional") {
  const Scenario scenario = numbered_scenario(3);
  const Budget whole = Budget::until_cancelled();
  REQUIRE(make_quick_plan(scenario, {.budget = whole}).is_ok());
  for (std::uint64_t n = 0; n < whole.looks(); n += 1 + n / 4) {
    CHECK(make_quick_plan(scenario, {.budget = Budget::of_looks(n)}).status().code() ==
          StatusCode::kCancelled);
  }
  const Plan plan = checked(scenario);
  CHECK(plan_from_json(to_json(plan)).value().provisional);
  CHECK_FALSE(plan_from_json(to_json(planned(scenario).plan)).value().provisional);
}

}  // namespace
}  // namespace square
