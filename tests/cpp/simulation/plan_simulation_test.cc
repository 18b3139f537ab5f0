#include "square/plan_simulation.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "square/planner.h"

using namespace square;

namespace {

constexpr double kMbps = 1e6;

// A full mesh, whose links differ.
Scenario mesh(std::uint32_t nodes, Duration latency = {}) {
  Scenario scenario;
  scenario.policy.fairness = Fairness::kCollective;
  for (std::uint32_t i = 0; i < nodes; ++i)
    REQUIRE(scenario.topology.add_node({.name = "n" + std::to_string(i)}).is_ok());
  for (std::uint32_t from = 0; from < nodes; ++from) {
    for (std::uint32_t to = 0; to < nodes; ++to) {
      if (from == to) continue;
      const LinkProperties link{.capacity_bps = (8 + (3 * from + to) % 5) * kMbps, .latency = latency};
      REQUIRE(scenario.topology.add_link(NodeId(from), NodeId(to), link).is_ok());
    }
  }
  return scenario;
}

CollectiveSpec& add(Scenario& scenario, CollectiveOp op, std::uint64_t size_bytes, std::uint32_t root = 0) {
  CollectiveSpec spec;
  spec.id = CollectiveId(static_cast<std::uint32_t>(scenario.collectives.size()));
  spec.tenant = "tenant " + std::to_string(spec.id.value());
  spec.op = op;
  spec.root = NodeId(root);
  for (std::uint32_t i = 0; i < scenario.topology.node_count(); ++i) spec.members.emplace_back(i);
  spec.size_bytes = size_bytes;
  scenario.tenants.push_back({spec.tenant});
  return scenario.collectives.emplace_back(std::move(spec));
}

Plan plan_of(const Scenario& scenario) {
  auto made = make_plan(scenario);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  return std::move(made->plan);
}

// Over what was planned, by collective.
std::vector<double> slowness(const Scenario& scenario, std::uint64_t seed = 1) {
  const Plan plan = plan_of(scenario);
  const auto simulated = simulate_plan(scenario, plan, {.seed = seed});
  REQUIRE_MESSAGE(simulated.is_ok(), simulated.status().to_string());
  REQUIRE(simulated->completions.size() == scenario.collectives.size());
  std::vector<double> slowness;
  for (std::size_t i = 0; i < simulated->completions.size(); ++i) {
    const SimulatedCompletion& one = simulated->completions[i];
    CHECK(one.collective == scenario.collectives[i].id);
    slowness.push_back(to_seconds(one.time) / plan.find_collective(one.collective)->completion_seconds);
  }
  return slowness;
}

StatusCode refusal(const Scenario& scenario, const Plan& plan, const PlanSimulationOptions& options = {}) {
  return simulate_plan(scenario, plan, options).status().code();
}

}  // namespace

TEST_CASE("collectives take about as long as they are planned to") {
  Scenario scenario = mesh(5);
  for (std::uint32_t root = 0; root < 3; ++root) add(scenario, CollectiveOp::kBroadcast, 2'000'000, root);
  add(scenario, CollectiveOp::kReduce, 2'000'000, 1);
  add(scenario, CollectiveOp::kAllReduce, 2'000'000);
  for (const double times : slowness(scenario)) {
    CHECK(times > 0.9);  // idle capacity is lent
    CHECK(times < 1.15);
  }
}

TEST_CASE("a ring, whose members add") {
  for (const std::uint64_t size : {4'000'000U, 1'000'003U, 4U, 3U}) {
    CAPTURE(size);
    Scenario scenario = mesh(4);
    add(scenario, CollectiveOp::kAllReduce, size).algorithm = AllReduceAlgorithm::kRing;
    const double times = slowness(scenario).front();
    if (size >= 1'000'000) CHECK(times < 1.2);
  }
}

TEST_CASE("who is alone, and what has no bytes, is done at once") {
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kAllReduce}) {
    Scenario alone = mesh(3);
    add(alone, op, 1'000).members = {NodeId(0)};
    if (op == CollectiveOp::kAllReduce) {
      CollectiveSpec& ring = add(alone, op, 1'000);
      ring.members = {NodeId(1)};
      ring.algorithm = AllReduceAlgorithm::kRing;
    }
    if (op == CollectiveOp::kBroadcast) add(alone, op, 0);
    const auto simulated = simulate_plan(alone, plan_of(alone));
    REQUIRE_MESSAGE(simulated.is_ok(), simulated.status().to_string());
    for (const SimulatedCompletion& one : simulated->completions)
      CHECK(one.time < std::chrono::milliseconds(50));
  }
}

TEST_CASE("two rings and a broadcast beside them") {
  Scenario scenario = mesh(3);
  add(scenario, CollectiveOp::kAllReduce, 1'000'000).algorithm = AllReduceAlgorithm::kRing;
  add(scenario, CollectiveOp::kBroadcast, 1'000'000, 2);
  CollectiveSpec& other = add(scenario, CollectiveOp::kAllReduce, 500'000);
  other.algorithm = AllReduceAlgorithm::kRing;
  std::swap(other.members[0], other.members[1]);
  CHECK(slowness(scenario).size() == 3);
}

TEST_CASE("latency comes on top, and the same seed gives the same times") {
  const auto seconds = [](Duration latency, std::uint64_t seed) {
    Scenario scenario = mesh(4, latency);
    add(scenario, CollectiveOp::kBroadcast, 1'000'000);
    const auto simulated = simulate_plan(scenario, plan_of(scenario), {.seed = seed});
    REQUIRE(simulated.is_ok());
    return simulated->completions.front().time;
  };
  using namespace std::chrono_literals;
  const Duration near = seconds(0ms, 1);
  CHECK(seconds(200ms, 1) > near + 200ms);
  CHECK(seconds(0ms, 1) == near);
  CHECK(seconds(200ms, 7) == seconds(200ms, 7));
}

TEST_CASE("the butterfly's code has its gain in virtual time, too") {
  Scenario scenario;
  for (std::uint32_t i = 0; i < 7; ++i)
    REQUIRE(scenario.topology.add_node({.name = "n" + std::to_string(i)}).is_ok());
  for (const auto& [from, to] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {0, 1}, {0, 2}, {1, 5}, {2, 6}, {1, 3}, {2, 3}, {3, 4}, {4, 5}, {4, 6}}) {
    REQUIRE(scenario.topology.add_link(NodeId(from), NodeId(to), {.capacity_bps = 10 * kMbps}).is_ok());
  }
  add(scenario, CollectiveOp::kBroadcast, 5'000'000).members = {NodeId(0), NodeId(5), NodeId(6)};
  const Plan plan = plan_of(scenario);
  REQUIRE(plan.collectives.front().rate_bps > 19.9 * kMbps);
  const auto simulated = simulate_plan(scenario, plan);
  REQUIRE(simulated.is_ok());
  CHECK(to_seconds(simulated->completions.front().time) < 1.1 * 2.0);
}

TEST_CASE("what cannot be simulated is refused, and says why") {
  Scenario scenario = mesh(3);
  add(scenario, CollectiveOp::kBroadcast, 1'000'000);
  const Plan plan = plan_of(scenario);
  CHECK(refusal(scenario, plan, {.memory_bytes = 2'999'999}) == StatusCode::kResourceExhausted);
  CHECK(refusal(scenario, plan, {.memory_bytes = 3'000'000}) == StatusCode::kOk);
  Plan rates = plan;
  rates.realised = false;
  CHECK(refusal(scenario, rates) == StatusCode::kFailedPrecondition);
  Plan still = plan;
  still.collectives.front().rate_bps = 0;
  CHECK(refusal(scenario, still) == StatusCode::kFailedPrecondition);
  CHECK(refusal(mesh(4), plan) == StatusCode::kInvalidArgument);
  Scenario larger = scenario;
  larger.collectives.front().size_bytes = 1;
  CHECK(refusal(larger, plan) == StatusCode::kInvalidArgument);
  const Budget cancelled = Budget::until_cancelled();
  cancelled.cancel();
  CHECK(refusal(scenario, plan, {.budget = cancelled}) == StatusCode::kCancelled);
  // In the midst of it.
  CHECK(refusal(scenario, plan, {.budget = Budget::of_looks(1'000)}) == StatusCode::kCancelled);
}

TEST_CASE("a collective that cannot end says so") {
  Scenario scenario = mesh(3);
  add(scenario, CollectiveOp::kBroadcast, 1'000'000);
  Plan plan = plan_of(scenario);
  // The plan has its streams stop short of a member.
  for (PlanSession& session : plan.sessions) {
    for (PlanStream& stream : session.streams)
      std::erase_if(stream.links, [](const auto& link) { return link.second == NodeId(2); });
  }
  const auto simulated = simulate_plan(scenario, plan);
  REQUIRE_FALSE(simulated.is_ok());
  CHECK(simulated.status().code() == StatusCode::kDeadlineExceeded);
  CHECK(simulated.status().message().find("\"n2\" timed out") != std::string::npos);
}
