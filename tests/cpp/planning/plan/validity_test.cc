#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "planning/scenarios.h"
#include "seed_step.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;

std::vector<NodeId> some_members(std::mt19937_64& random, const Topology& topology) {
  std::vector<NodeId> members = everyone(topology);
  std::shuffle(members.begin(), members.end(), random);
  members.resize(1 + random() % members.size());
  return members;
}

Scenario random_valid_scenario(std::mt19937_64& random) {
  const std::size_t nodes = 2 + random() % 6;
  std::vector<std::string> names;
  for (std::size_t v = 0; v < nodes; ++v) names.push_back(fmt::format("n{}", v));
  Topology topology = named_nodes(names);
  std::uniform_real_distribution<double> number(0.0, 1.0);
  for (std::size_t u = 0; u < nodes; ++u) {
    for (std::size_t v = 0; v < nodes; ++v) {
      if (u == v || (v != (u + 1) % nodes && number(random) > 0.4)) continue;
      if (number(random) < 0.05) {
        REQUIRE(topology.add_link(names[u], names[v], LinkProperties{}).is_ok());
      } else {
        // From 10 kbit/s to 10 Gbit/s: solvers keep tolerances, plans keep capacities.
        link(topology, names[u], names[v], std::pow(10.0, -2 + 6 * number(random)));
      }
    }
    if (number(random) < 0.3) {
      REQUIRE(topology.set_limits(node(u), (1 + 99 * number(random)) * kMbps, kUnlimited).is_ok());
    }
    if (number(random) < 0.3) {
      REQUIRE(topology.set_limits(node(u), kUnlimited, (1 + 99 * number(random)) * kMbps).is_ok());
    }
  }
  Scenario scenario = scenario_on(std::move(topology));
  scenario.tenants = {{"t", 1.0}, {"u", 0.1 + 5 * number(random)}};
  scenario.policy.shots = 1 + static_cast<int>(random() % 4);
  scenario.policy.fairness = random() % 2 == 0 ? Fairness::kCollective : Fairness::kTenant;
  scenario.policy.paths.kind =
      std::vector{PathKind::kShortest, PathKind::kWidest, PathKind::kAll}[random() % 3];
  scenario.policy.paths.k = random() % 5;
  const std::vector<CollectiveOp> ops = {
      CollectiveOp::kBroadcast, CollectiveOp::kBroadcast, CollectiveOp::kAllGather, CollectiveOp::kScatter,
      CollectiveOp::kGather,    CollectiveOp::kAllToAll,  CollectiveOp::kAllReduce};
  const std::size_t collectives = 1 + random() % 4;
  for (std::size_t c = 0; c < collectives; ++c) {
    const std::uint64_t bytes = random() % 4 == 0 ? random() % 10 : 1 + random() % 100'000'000;
    CollectiveSpec& spec =
        add_collective(scenario, ops[random() % ops.size()], some_members(random, scenario.topology), bytes);
    spec.weight = 0.1 + 9 * number(random);
    if (random() % 2 == 0) spec.tenant = "u";
  }
  return scenario;
}

TEST_CASE("every plan of every policy is valid") {
  constexpr std::uint64_t kRounds = 300 / square::test::kSeedStep;
  std::uint64_t plans = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    Scenario scenario = random_valid_scenario(random);
    for (const std::string_view policy : policy_names()) {
      CAPTURE(policy);
      scenario.policy.name = policy;
      const Plan plan = planned(scenario).plan;
      const std::vector<std::string> violations = find_violations(plan);
      CHECK_MESSAGE(violations.empty(), (violations.empty() ? "" : violations.front()));
      for (const PlanLink& link : plan.links) CHECK(link.load_bps <= link.capacity_bps * (1 + 1e-9));
      ++plans;
    }
  }
  CHECK(plans == kRounds * policy_names().size());
}

// Two broadcasts, an all-gather and a scatter on a mesh of 5, with node limits.
const Plan& valid_plan() {
  static const Plan plan = [] {
    Topology topology = mesh(5, seed());
    REQUIRE(topology.set_limits(node(0), 30 * kMbps, 25 * kMbps).is_ok());
    Scenario scenario = scenario_on(std::move(topology));
    add_broadcast(scenario, 0);
    add_broadcast(scenario, 1);
    add_collective(scenario, CollectiveOp::kAllGather, {node(1), node(2), node(4)}, 1000);
    add_collective(scenario, CollectiveOp::kScatter, {node(3), node(0), node(1)}, 1000);
    return planned(scenario).plan;
  }();
  return plan;
}

// A change to a valid plan, and a word of the message that it must cause.
void check_rejects(const std::function<void(Plan&)>& tamper, std::string_view expected) {
  Plan plan = valid_plan();
  REQUIRE(find_violations(plan).empty());
  tamper(plan);
  const std::vector<std::string> violations = find_violations(plan);
  CHECK_FALSE(violations.empty());
  CHECK_FALSE(validate(plan).is_ok());
  CHECK(validate(plan).code() == StatusCode::kInvalidArgument);
  std::string all;
  for (const std::string& violation : violations) all += violation + "\n";
  INFO(all);
  CHECK(all.find(expected) != std::string::npos);
}

TEST_CASE("tampering: a link with less capacity than its load") {
  check_rejects(
      [](Plan& plan) {
        auto& link = *std::max_element(plan.links.begin(), plan.links.end(),
                                       [](auto& a, auto& b) { return a.load_bps < b.load_bps; });
        link.capacity_bps = link.load_bps * 0.999;
      },
      "streams put");
}
TEST_CASE("tampering: conceptual flows over a capacity") {
  check_rejects(
      [](Plan& plan) {
        for (PlanPath& path : plan.sessions[0].paths) path.rate_bps *= 20;
      },
      "conceptual flows put");
}
TEST_CASE("tampering: an egress limit") {
  check_rejects([](Plan& plan) { plan.nodes[0].egress_bps = 1 * kMbps; }, "its egress limit is");
}
TEST_CASE("tampering: an ingress limit") {
  check_rejects([](Plan& plan) { plan.nodes[0].ingress_bps = 1 * kMbps; }, "its ingress limit is");
}
TEST_CASE("tampering: a stream that misses a member") {
  check_rejects([](Plan& plan) { plan.sessions[0].streams[0].links.pop_back(); }, "does not reach member");
}
TEST_CASE("tampering: a stream over a link that is not there") {
  check_rejects(
      [](Plan& plan) {
        const auto used = plan.sessions[0].streams[0].links.front();
        std::erase_if(plan.links, [&](const PlanLink& link) {
          return link.from == used.first && link.to == used.second;
        });
      },
      "there is no link");
}
TEST_CASE("tampering: a link before the one that feeds it") {
  check_rejects(
      [](Plan& plan) {
        for (PlanStream& stream : plan.sessions[0].streams)
          std::reverse(stream.links.begin(), stream.links.end());
      },
      "comes before the link that feeds it");
}
TEST_CASE("tampering: a node that is reached twice") {
  check_rejects(
      [](Plan& plan) {
        auto& links = plan.sessions[0].streams[0].links;
        links.push_back({links.back().second, links.front().second});
      },
      "is reached twice");
}
TEST_CASE("tampering: a stream without a rate") {
  check_rejects([](Plan& plan) { plan.sessions[0].streams[0].rate_bps = 0; }, "is not positive and finite");
}
TEST_CASE("tampering: a stream whose rate is not a number") {
  check_rejects(
      [](Plan& plan) { plan.sessions[0].streams[0].rate_bps = std::numeric_limits<double>::quiet_NaN(); },
      "is not positive and finite");
}
TEST_CASE("tampering: a stream left out") {
  check_rejects([](Plan& plan) { plan.sessions[0].streams.pop_back(); }, "its streams sum to");
}
TEST_CASE("tampering: a session rate over what the program allows") {
  check_rejects([](Plan& plan) { plan.sessions[0].lp_rate_bps = plan.sessions[0].rate_bps * 0.9; },
                "is over its lp_rate");
}
TEST_CASE("tampering: a path left out") {
  check_rejects([](Plan& plan) { plan.sessions[0].paths.pop_back(); }, "its paths carry");
}
TEST_CASE("tampering: a path that leads elsewhere") {
  check_rejects([](Plan& plan) { plan.sessions[0].paths[0].nodes.back() = plan.sessions[0].root; },
                "does not lead there");
}
TEST_CASE("tampering: a collective's rate") {
  check_rejects([](Plan& plan) { plan.collectives[2].rate_bps *= 1.01; }, "its sessions allow");
}
TEST_CASE("tampering: a completion time") {
  check_rejects([](Plan& plan) { plan.collectives[1].completion_seconds *= 0.5; }, "its completion is given");
}
TEST_CASE("tampering: a tenant's rate") {
  check_rejects(
      [](Plan& plan) {
        plan.tenants[0].rate_bps += 1;
        plan.tenants[0].rate_bps *= 2;
      },
      "its collectives sum to");
}
TEST_CASE("tampering: the smallest rate, the total, Jain's index") {
  check_rejects([](Plan& plan) { plan.min_rate_bps *= 2; }, "the smallest rate");
  check_rejects([](Plan& plan) { plan.total_rate_bps *= 2; }, "the total rate");
  check_rejects([](Plan& plan) { plan.jain = 0.5; }, "Jain's index");
}
TEST_CASE("tampering: a link's load") {
  check_rejects([](Plan& plan) { plan.links[0].load_bps += 1000; }, "its load is given");
}
TEST_CASE("tampering: a broadcast that leaves out bytes") {
  check_rejects([](Plan& plan) { plan.sessions[0].offset_bytes = 1; }, "byte ranges incomplete");
}
TEST_CASE("tampering: an all-gather with two slots of the same bytes") {
  check_rejects([](Plan& plan) { plan.sessions[3].offset_bytes = plan.sessions[2].offset_bytes; },
                "byte ranges incomplete");
}
TEST_CASE("tampering: a scatter with a slot missing") {
  check_rejects(
      [](Plan& plan) {
        plan.collectives[3].sessions.pop_back();
        plan.sessions.pop_back();
      },
      "byte ranges incomplete");
}
TEST_CASE("tampering: a bound that its cut does not prove") {
  check_rejects([](Plan& plan) { plan.certificate.cuts[0].bound_bps *= 2; }, "a cut claims");
  check_rejects([](Plan& plan) { plan.collectives[0].bound_bps *= 2; }, "its cuts prove");
}
TEST_CASE("tampering: a level bound below the level") {
  check_rejects([](Plan& plan) { plan.certificate.level_bound_bps = 1.0; }, "the level bound is");
}
TEST_CASE("tampering: ids and references") {
  check_rejects([](Plan& plan) { plan.sessions[0].root = NodeId(99); }, "names node 99");
  check_rejects([](Plan& plan) { plan.sessions[1].id = plan.sessions[0].id; }, "is there twice");
  check_rejects([](Plan& plan) { plan.sessions[0].collective = CollectiveId(77); }, "collective 77");
  check_rejects([](Plan& plan) { plan.collectives[0].sessions[0] = SessionId(55); }, "session 55");
  check_rejects([](Plan& plan) { plan.collectives[0].sessions.clear(); }, "is listed 0 times");
  check_rejects([](Plan& plan) { plan.collectives[0].tenant = "nobody"; }, "its tenant nobody");
  check_rejects([](Plan& plan) { plan.nodes[1].name = plan.nodes[0].name; }, "two nodes named");
  check_rejects([](Plan& plan) { plan.links.push_back(plan.links[0]); }, "is there twice");
}
TEST_CASE("tampering: members") {
  check_rejects([](Plan& plan) { plan.sessions[0].members.erase(plan.sessions[0].members.begin()); },
                "its root is not a member");
  check_rejects([](Plan& plan) { plan.sessions[0].members.push_back(plan.sessions[0].root); },
                "has a member twice");
  check_rejects([](Plan& plan) { plan.sessions[0].kind = SessionKind::kUnicast; }, "is a unicast with");
}
TEST_CASE("tampering: a coded stream without a code") {
  check_rejects([](Plan& plan) { plan.sessions[0].streams[0].coded.emplace(); }, "has no code 0");
}

}  // namespace
}  // namespace square
