#include "square/planner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "planning/paths/feasible_paths.h"
#include "planning/plan/assumption.h"
#include "planning/scenarios.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;

// Edmonds and Karp, on capacities in bits per second.
double max_flow(const Topology& topology, NodeId source, NodeId target) {
  std::map<std::pair<NodeId, NodeId>, double> left;
  for (std::size_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
    left[{link.from, link.to}] += link.properties.capacity_bps;
  }
  double flow = 0;
  while (true) {
    std::map<NodeId, NodeId> parent = {{source, source}};
    std::deque<NodeId> open = {source};
    while (!open.empty() && !parent.contains(target)) {
      const NodeId at = open.front();
      open.pop_front();
      for (std::size_t v = 0; v < topology.node_count(); ++v) {
        if (left[{at, node(v)}] > 1e-3 && parent.emplace(node(v), at).second) open.push_back(node(v));
      }
    }
    if (!parent.contains(target)) return flow;
    double width = kUnlimited;
    for (NodeId v = target; v != source; v = parent[v]) width = std::min(width, left[{parent[v], v}]);
    for (NodeId v = target; v != source; v = parent[v]) {
      left[{parent[v], v}] -= width;
      left[{v, parent[v]}] += width;
    }
    flow += width;
  }
}

double stream_sum(const Plan& plan) {
  double sum = 0;
  for (const PlanSession& session : plan.sessions) sum += session.rate_bps;
  return sum;
}
double lp_sum(const Plan& plan) {
  double sum = 0;
  for (const PlanSession& session : plan.sessions) sum += session.lp_rate_bps;
  return sum;
}

TEST_CASE("butterfly: the program allows 2.0, trees without coding carry 1.5") {
  Scenario scenario = scenario_on(butterfly());
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(5), node(6)});
  const PlanResult result = planned(scenario);
  const PlanSession& session = result.plan.sessions.at(0);
  CHECK(session.lp_rate_bps == doctest::Approx(2 * kMbps));
  CHECK(session.rate_bps == doctest::Approx(1.5 * kMbps).epsilon(1e-4));
  CHECK(result.plan.collectives[0].rate_bps == doctest::Approx(session.rate_bps));
  CHECK(result.plan.collectives[0].bound_bps == doctest::Approx(2 * kMbps));
  REQUIRE_FALSE(session.streams.empty());
  for (const PlanStream& stream : session.streams) CHECK_FALSE(stream.coded);
}

TEST_CASE("mesh of 8, one broadcast: within 1% of the smallest cut") {
  for (std::uint64_t round = 0; round < 3; ++round) {
    CAPTURE(seed() + round);
    Scenario scenario = scenario_on(mesh(8, seed() + round));
    scenario.policy.paths = {PathKind::kShortest, 60};
    add_broadcast(scenario, 0);
    double cut = kUnlimited;
    for (std::size_t v = 1; v < 8; ++v) cut = std::min(cut, max_flow(scenario.topology, node(0), node(v)));
    const Plan plan = planned(scenario).plan;
    CHECK(plan.collectives[0].rate_bps >= 0.99 * cut);
    CHECK(plan.collectives[0].rate_bps <= cut * (1 + 1e-9));
    CHECK(plan.collectives[0].bound_bps == doctest::Approx(cut).epsilon(1e-6));
    REQUIRE(plan.certificate.level_bound_bps.has_value());
    CHECK(*plan.certificate.level_bound_bps == doctest::Approx(cut).epsilon(1e-6));
  }
}

TEST_CASE("mesh of 8, eight broadcasts: streams within 1% of the program, level at its bound") {
  for (std::uint64_t round = 0; round < 3; ++round) {
    CAPTURE(seed() + round);
    Scenario scenario = scenario_on(mesh(8, seed() + round));
    for (std::size_t v = 0; v < 8; ++v) add_broadcast(scenario, v);
    const PlanResult result = planned(scenario);
    CHECK(stream_sum(result.plan) >= 0.99 * lp_sum(result.plan));
    REQUIRE(result.plan.certificate.level_bound_bps.has_value());
    const double level = result.shots[0].optimum_bps;
    // The bound is exact, the program keeps its rows to a tolerance.
    CHECK(*result.plan.certificate.level_bound_bps >= level * (1 - 1e-6));
    CHECK(*result.plan.certificate.level_bound_bps == doctest::Approx(level).epsilon(1e-6));
  }
}

TEST_CASE("the baselines are what they say, and square is no worse than they are") {
  CAPTURE(seed());
  Scenario scenario = scenario_on(mesh(8, seed()));
  for (std::size_t v = 0; v < 3; ++v) add_broadcast(scenario, v);
  std::map<std::string_view, Plan> plans;
  for (const std::string_view policy : policy_names()) {
    scenario.policy.name = policy;
    plans[policy] = planned(scenario).plan;
    CHECK(plans[policy].policy == policy);
  }
  for (const PlanSession& session : plans["shortest-path"].sessions) {
    REQUIRE(session.streams.size() == 1);  // in a full mesh, the star
    CHECK(session.streams[0].links.size() == 7);
    for (const auto& [from, to] : session.streams[0].links) CHECK(from == session.root);
  }
  CHECK(plans["mcf"].sessions.size() == 21);
  for (const PlanSession& session : plans["mcf"].sessions) {
    CHECK(session.kind == SessionKind::kUnicast);
    CHECK(session.size_bytes == 12'500'000);
  }
  CHECK(plans["square"].min_rate_bps > plans["mcf"].min_rate_bps);
  CHECK(plans["square"].min_rate_bps > plans["shortest-path"].min_rate_bps);
  CHECK(plans["max-throughput"].total_rate_bps >= 0.99 * plans["square"].total_rate_bps);
}

TEST_CASE("node limits hold and bind") {
  CAPTURE(seed());
  Topology topology = mesh(6, seed());
  REQUIRE(topology.set_limits(node(0), 15 * kMbps, kUnlimited).is_ok());
  REQUIRE(topology.set_limits(node(4), kUnlimited, 8 * kMbps).is_ok());
  Scenario scenario = scenario_on(std::move(topology));
  add_broadcast(scenario, 0);
  const Plan plan = planned(scenario).plan;
  double sent = 0;
  double received = 0;
  for (const PlanLink& link : plan.links) {
    if (link.from == node(0)) sent += link.load_bps;
    if (link.to == node(4)) received += link.load_bps;
  }
  CHECK(sent <= 15 * kMbps * (1 + 1e-9));
  CHECK(received <= 8 * kMbps * (1 + 1e-9));
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(8 * kMbps).epsilon(0.006));
  CHECK(plan.collectives[0].bound_bps == doctest::Approx(8 * kMbps));
}

// Broadcasts from one node to another, all over one link of 12 Mbit/s.
Scenario one_link(std::size_t collectives) {
  Topology topology = named_nodes({"p", "q"});
  link(topology, "p", "q", 12);
  Scenario scenario = scenario_on(std::move(topology));
  scenario.tenants = {{"t", 1.0}, {"u", 1.0}};
  for (std::size_t c = 0; c < collectives; ++c)
    add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
  return scenario;
}

TEST_CASE("rates follow the weights") {
  Scenario scenario = one_link(3);
  scenario.policy.shots = 1;
  scenario.collectives[1].weight = 3;
  scenario.collectives[2].tenant = "u";
  scenario.tenants[1].weight = 2;
  const Plan plan = planned(scenario).plan;
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(2 * kMbps));
  CHECK(plan.collectives[1].rate_bps == doctest::Approx(6 * kMbps));
  CHECK(plan.collectives[2].rate_bps == doctest::Approx(4 * kMbps));
  CHECK(plan.collectives[1].weight == 3);
  CHECK(plan.collectives[2].weight == 2);
  CHECK(plan.jain == doctest::Approx(1));
  CHECK(plan.tenants[0].rate_bps == doctest::Approx(8 * kMbps));
}

TEST_CASE("tenant fairness divides a tenant's weight among its collectives") {
  Scenario scenario = one_link(4);
  scenario.policy.fairness = Fairness::kTenant;
  scenario.policy.shots = 1;
  scenario.collectives[0].weight = 5;
  scenario.collectives[1].weight = 2.5;
  scenario.collectives[2].weight = 2.5;
  scenario.collectives[3].tenant = "u";
  const Plan plan = planned(scenario).plan;
  CHECK(plan.collectives[0].weight == doctest::Approx(0.5));
  CHECK(plan.tenants[0].rate_bps == doctest::Approx(6 * kMbps));
  CHECK(plan.tenants[1].rate_bps == doctest::Approx(6 * kMbps));
  CHECK(plan.collectives[1].rate_bps == doctest::Approx(1.5 * kMbps));
}

TEST_CASE("a broadcast to some uses the others as relays") {
  // s reaches x and y over 1 Mbit/s each, and through the relay r at 10.
  Topology topology = named_nodes({"s", "x", "y", "r"});
  link(topology, "s", "x", 1);
  link(topology, "s", "y", 1);
  link(topology, "s", "r", 10);
  link(topology, "r", "x", 10);
  link(topology, "r", "y", 10);
  Scenario scenario = scenario_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1), node(2)});
  const Plan plan = planned(scenario).plan;
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(11 * kMbps).epsilon(0.006));
  CHECK(plan.sessions[0].members == std::vector<NodeId>{node(0), node(1), node(2)});
}

TEST_CASE("more shots give those who are not held back more") {
  // p -> q is shared by 0 and 1; 1 and 2 also share r -> s, where 2 could have more.
  Topology topology = named_nodes({"p", "q", "r", "s"});
  link(topology, "p", "q", 2);
  link(topology, "q", "r", 100);
  link(topology, "r", "s", 10);
  Scenario scenario = scenario_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(3)});
  add_collective(scenario, CollectiveOp::kBroadcast, {node(2), node(3)});
  scenario.policy.shots = 3;
  const PlanResult result = planned(scenario);
  CHECK(result.shots.front().optimum_bps == doctest::Approx(1 * kMbps));
  CHECK(result.plan.collectives[0].rate_bps == doctest::Approx(1 * kMbps));
  CHECK(result.plan.collectives[1].rate_bps == doctest::Approx(1 * kMbps));
  CHECK(result.plan.collectives[2].rate_bps == doctest::Approx(9 * kMbps));
  for (const PlanCollective& collective : result.plan.collectives) {
    CHECK(collective.bound_bps == doctest::Approx(collective.rate_bps));
  }
}

TEST_CASE("links without a capacity are planned as the lowest finite one, or 1 Gbit/s") {
  Topology topology = named_nodes({"p", "q"});
  REQUIRE(topology.add_link("p", "q", LinkProperties{}).is_ok());
  Scenario alone = scenario_on(topology);
  add_collective(alone, CollectiveOp::kBroadcast, {node(0), node(1)});
  const PlanResult one = planned(alone);
  CHECK(one.plan.collectives[0].rate_bps == doctest::Approx(1000 * kMbps));
  CHECK(one.plan.links[0].capacity_bps == kUnlimited);
  CHECK(one.shots[0].residual_capacity_bps[0] == 1000 * kMbps);

  link(topology, "q", "p", 30);
  Scenario both = scenario_on(topology);
  add_collective(both, CollectiveOp::kBroadcast, {node(0), node(1)});
  CHECK(planned(both).plan.collectives[0].rate_bps == doctest::Approx(30 * kMbps));
}

TEST_CASE("a plan says what it assumes of links without a capacity, and which bounds rest on that") {
  Topology topology = named_nodes({"p", "q", "r"});
  REQUIRE(topology.add_link("p", "q", LinkProperties{}).is_ok());
  for (const char* policy : {"exact", "square"}) {
    CAPTURE(policy);
    Scenario scenario = scenario_on(topology);
    scenario.policy.name = policy;
    add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
    const Plan alone = planned(scenario).plan;
    REQUIRE(planning::assumption_of(alone).has_value());
    CHECK(planning::assumption_of(alone)->links == 1);
    CHECK(planning::assumption_of(alone)->capacity_bps == 1000 * kMbps);
    CHECK(planning::assumed_bounds(alone) == std::vector{CollectiveId(0)});
    CHECK(to_json(alone).find("\"assumed\":{\"links\":1,\"capacity_mbps\":1000.0}") != std::string::npos);
    CHECK(to_json(alone).find("\"bound_is_assumed\":true") != std::string::npos);
    CHECK(plan_from_json(to_json(alone)).is_ok());

    // A bound that another link proves does not rest on it.
    Topology wider = topology;
    link(wider, "q", "r", 30);
    scenario.topology = wider;
    scenario.collectives.clear();
    add_collective(scenario, CollectiveOp::kBroadcast, {node(1), node(2)});
    const Plan proven = planned(scenario).plan;
    CHECK(planning::assumption_of(proven)->capacity_bps == 30 * kMbps);
    CHECK(planning::assumed_bounds(proven).empty());
    CHECK(to_json(proven).find("bound_is_assumed") == std::string::npos);

    REQUIRE(wider.set_capacity(LinkId(0), 1e6).is_ok());
    scenario.topology = wider;
    CHECK_FALSE(planning::assumption_of(planned(scenario).plan).has_value());
  }
}

TEST_CASE("of six links of which five are measured the sixth is given what the slowest would be") {
  Topology topology = named_nodes({"root", "a", "b", "c", "d", "e", "f"});
  double mbps = 50;
  for (const char* name : {"a", "b", "c", "d", "e"}) link(topology, "root", name, mbps += 10);
  REQUIRE(topology.add_link("root", "f", LinkProperties{}).is_ok());
  for (const char* policy : {"exact", "square", "shortest-path"}) {
    CAPTURE(policy);
    Scenario scenario = scenario_on(topology);
    scenario.policy.name = policy;
    add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(6)});
    const PlanResult result = planned(scenario);
    CHECK(result.plan.collectives[0].rate_bps == doctest::Approx(60 * kMbps));
    // It is not paced: what it carries is still to be seen.
    CHECK(result.plan.links.back().capacity_bps == kUnlimited);
  }
}

TEST_CASE("sessions, ranges and rates of each operation") {
  CAPTURE(seed());
  struct Expected {
    CollectiveOp op;
    std::size_t sessions;
    SessionKind kind;
    std::uint64_t largest;  // bytes of the largest session
  };
  const std::uint64_t bytes = 1003;
  for (const Expected& expected : {Expected{CollectiveOp::kBroadcast, 1, SessionKind::kMulticast, 1003},
                                   Expected{CollectiveOp::kAllGather, 4, SessionKind::kMulticast, 253},
                                   Expected{CollectiveOp::kScatter, 3, SessionKind::kUnicast, 253},
                                   Expected{CollectiveOp::kGather, 3, SessionKind::kUnicast, 253},
                                   Expected{CollectiveOp::kAllToAll, 12, SessionKind::kUnicast, 253},
                                   Expected{CollectiveOp::kAllReduce, 4, SessionKind::kUnicast, 1504}}) {
    CAPTURE(to_string(expected.op));
    Scenario scenario = scenario_on(mesh(4, seed()));
    add_collective(scenario, expected.op, everyone(scenario.topology), bytes);
    const Plan plan = planned(scenario).plan;
    REQUIRE(plan.sessions.size() == expected.sessions);
    std::uint64_t largest = 0;
    double least = kUnlimited;
    for (std::size_t i = 0; i < plan.sessions.size(); ++i) {
      const PlanSession& session = plan.sessions[i];
      CHECK(session.id == SessionId(static_cast<std::uint32_t>(i)));
      CHECK(session.kind == expected.kind);
      CHECK(session.members.front() == session.root);
      largest = std::max(largest, session.size_bytes);
      least = std::min(least, session.rate_bps * bytes / static_cast<double>(session.size_bytes));
    }
    CHECK(largest == expected.largest);
    CHECK(plan.collectives[0].rate_bps == doctest::Approx(least));
    CHECK(plan.collectives[0].completion_seconds == doctest::Approx(8.0 * bytes / least));
  }
}

TEST_CASE("buffers smaller than the group, and empty ones, are planned like large ones") {
  CAPTURE(seed());
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kAllGather, CollectiveOp::kScatter,
                                CollectiveOp::kGather, CollectiveOp::kAllToAll, CollectiveOp::kAllReduce}) {
    CAPTURE(to_string(op));
    std::vector<double> rates;
    for (const std::uint64_t bytes : {0, 1, 3, 4'000'000}) {
      Scenario scenario = scenario_on(mesh(4, seed()));
      add_collective(scenario, op, everyone(scenario.topology), bytes);
      const Plan plan = planned(scenario).plan;
      rates.push_back(plan.collectives[0].rate_bps);
      CHECK(plan.collectives[0].completion_seconds ==
            doctest::Approx(8.0 * static_cast<double>(bytes) / rates.back()));
    }
    for (const double rate : rates) CHECK(rate == doctest::Approx(rates.back()).epsilon(0.006));
  }
}

TEST_CASE("a collective with one member has no sessions, no limit and no time") {
  Scenario scenario = one_link(1);
  add_collective(scenario, CollectiveOp::kAllGather, {node(1)});
  const Plan plan = planned(scenario).plan;
  CHECK(plan.sessions.size() == 1);
  CHECK(plan.collectives[1].rate_bps == kUnlimited);
  CHECK(plan.collectives[1].bound_bps == kUnlimited);
  CHECK(plan.collectives[1].completion_seconds == 0);
  CHECK(plan.min_rate_bps == doctest::Approx(12 * kMbps));
  CHECK(plan.total_rate_bps == doctest::Approx(12 * kMbps));
  CHECK(plan.jain == doctest::Approx(1));
}

TEST_CASE("a scenario without collectives gives a plan without sessions") {
  const PlanResult result = planned(scenario_on(mesh(3, seed())));
  CHECK(result.plan.sessions.empty());
  CHECK(result.shots.empty());
  CHECK(result.plan.links.size() == 6);
  CHECK(result.plan.jain == 1);
}

std::string error_of(const Scenario& scenario, StatusCode code) {
  const Result<PlanResult> result = make_plan(scenario);
  REQUIRE_FALSE(result.is_ok());
  CHECK(result.status().code() == code);
  return result.status().message();
}

TEST_CASE("what cannot be planned is refused by name") {
  for (const std::string_view policy : policy_names()) {
    CAPTURE(policy);
    Scenario unreachable = one_link(1);
    unreachable.policy.name = policy;
    unreachable.collectives[0].root = node(1);
    const std::string message = error_of(unreachable, StatusCode::kFailedPrecondition);
    CHECK(message.find("collective 0 (broadcast, tenant t)") != std::string::npos);
    CHECK(message.find("from q to p") != std::string::npos);
  }
  Scenario adding = one_link(1);
  for (const CollectiveOp op :
       {CollectiveOp::kReduce, CollectiveOp::kReduceScatter, CollectiveOp::kAllReduce}) {
    adding.collectives[0].op = op;
    adding.collectives[0].algorithm = AllReduceAlgorithm::kPlanned;
    CHECK(error_of(adding, StatusCode::kUnimplemented).find("collective 0") != std::string::npos);
  }
  Scenario other = one_link(1);
  other.policy.name = "fair";
  CHECK(error_of(other, StatusCode::kInvalidArgument).find("exact, square, max-throughput") !=
        std::string::npos);
  other = one_link(1);
  other.policy.shots = 0;
  CHECK(error_of(other, StatusCode::kInvalidArgument).find("shots") != std::string::npos);
  other = one_link(1);
  other.collectives[0].tenant = "nobody";
  (void)error_of(other, StatusCode::kInvalidArgument);
}

TEST_CASE("the same scenario gives the same plan") {
  CAPTURE(seed());
  Scenario scenario = scenario_on(mesh(7, seed()));
  for (std::size_t v = 0; v < 4; ++v) add_broadcast(scenario, v);
  Plan first = planned(scenario).plan;
  Plan second = planned(scenario).plan;
  first.solve_seconds = second.solve_seconds = 0;
  CHECK(to_json(first) == to_json(second));
}

TEST_CASE("the shortest-path tree: hops, then width, then names") {
  // d is two hops away over a (narrow), b and c (equally wide): b comes first.
  Topology topology = named_nodes({"s", "c", "b", "a", "d", "e"});
  for (const char* middle : {"a", "b", "c"}) {
    link(topology, "s", middle, 10);
    link(topology, middle, "d", middle[0] == 'a' ? 2 : 5);
  }
  link(topology, "d", "e", 7);
  const std::vector<Path> tree = planning::shortest_path_tree(topology, node(0));
  const auto names = [&](const Path& path) {
    std::string text;
    for (const NodeId v : path.nodes) text += topology.node(v).name;
    return text;
  };
  CHECK(names(tree[topology.find_node("d")->index()]) == "sbd");
  CHECK(names(tree[topology.find_node("e")->index()]) == "sbde");
  CHECK(tree[topology.find_node("e")->index()].width_bps == 5 * kMbps);
  CHECK(planning::shortest_path_tree(topology, *topology.find_node("e"))[0].links.empty());
}

TEST_CASE("on meshes, streams carry what the program allows, but for thin ones") {
  // The flows of a program often lie so that trees within them carry less; what links have
  // to spare makes up for it.
  for (std::uint64_t round = 0; round < 40; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const std::size_t nodes = 3 + random() % 8;
    Scenario scenario = scenario_on(mesh(nodes, seed() + round));
    scenario.policy.paths = {random() % 2 == 0 ? PathKind::kShortest : PathKind::kWidest,
                             1 + random() % (nodes + 3)};
    if (random() % 2 == 0) {
      for (std::size_t v = 0; v < nodes; ++v) {
        REQUIRE(scenario.topology.set_limits(node(v), 30 * kMbps, 25 * kMbps).is_ok());
      }
    }
    const std::size_t collectives = 1 + random() % nodes;
    for (std::size_t c = 0; c < collectives; ++c) {
      std::vector<NodeId> members = everyone(scenario.topology);
      std::shuffle(members.begin(), members.end(), random);
      members.resize(2 + random() % (nodes - 1));
      add_collective(scenario, CollectiveOp::kBroadcast, members);
    }
    for (const PlanSession& session : planned(scenario).plan.sessions) {
      CHECK(session.rate_bps >= 0.985 * session.lp_rate_bps);
    }
  }
}

TEST_CASE("meshes of 16 with 16 broadcasts over 15 paths, and 8 subsets of 32 nodes, take seconds") {
  CAPTURE(seed());
  Scenario broadcasts = scenario_on(mesh(16, seed()));
  broadcasts.policy.paths = {PathKind::kShortest, 15};
  for (std::size_t v = 0; v < 16; ++v) add_broadcast(broadcasts, v);
  Scenario subsets = scenario_on(mesh(32, seed()));
  std::mt19937_64 random(seed());
  for (std::size_t c = 0; c < 8; ++c) {
    std::vector<NodeId> members = everyone(subsets.topology);
    std::shuffle(members.begin(), members.end(), random);
    members.resize(9);
    add_collective(subsets, CollectiveOp::kBroadcast, members);
  }
  for (const Scenario* scenario : {&broadcasts, &subsets}) {
    const Plan plan = planned(*scenario).plan;
    MESSAGE("solved in " << plan.solve_seconds << " s");
    CHECK(plan.solve_seconds < 30);  // generous: machines and sanitizers differ
    CHECK(stream_sum(plan) >= 0.98 * lp_sum(plan));
  }
}

TEST_CASE("a plan makes as many sessions of a collective as session_count() says") {
  for (const std::size_t members : {1, 2, 4}) {
    for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kAllReduce,
                                  CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                  CollectiveOp::kAllToAll, CollectiveOp::kGather, CollectiveOp::kScatter}) {
      Scenario scenario = scenario_on(mesh(4, seed()));
      scenario.policy.name = "exact";
      std::vector<NodeId> some = everyone(scenario.topology);
      some.resize(members);
      add_collective(scenario, op, some).algorithm = AllReduceAlgorithm::kPlanned;
      CAPTURE(to_string(op));
      CHECK(planned(scenario).plan.sessions.size() == session_count(op, members));
    }
  }
}

}  // namespace
}  // namespace square
