// Every program of a plan against the equations written down literally, with no variable
// or row left out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "lp/solver.h"
#include "planning/scenarios.h"
#include "planning/square/assembly.h"
#include "planning/square/policies.h"
#include "planning/square/shots.h"
#include "planning/square/streams.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using namespace square::testing;

double literal_optimum(const Problem& problem, const ShotTrace& shot) {
  constexpr double kScale = 1e7;
  const Topology& topology = problem.topology();
  const bool max_min = shot.objective == ShotTrace::Objective::kMaxMin;
  LinearProgram program;
  std::vector<int> capacity;
  std::vector<int> egress;
  std::vector<int> ingress;
  for (const double c : shot.residual_capacity_bps)
    capacity.push_back(program.add_row({-kLpInfinity, c / kScale}));
  for (const double c : shot.residual_egress_bps)
    egress.push_back(program.add_row({-kLpInfinity, c / kScale}));
  for (const double c : shot.residual_ingress_bps)
    ingress.push_back(program.add_row({-kLpInfinity, c / kScale}));
  const int level = program.add_column({0, kLpInfinity, max_min ? 1.0 : 0.0});
  std::map<CollectiveId, int> rate;
  for (const CollectiveId id : shot.active)
    rate[id] = program.add_column({0, kLpInfinity, max_min ? 0.0 : 1.0});
  for (std::size_t c = 0; c < problem.weight.size(); ++c) {
    const auto known = rate.find(problem.scenario->collectives[c].id);
    if (known == rate.end()) continue;
    if (max_min) {  // (6)
      const int row = program.add_row({-kLpInfinity, 0});
      program.add_entry(row, level, 1);
      program.add_entry(row, known->second, -1 / problem.weight[c]);
    }
    for (const std::size_t i : problem.sessions_of[c]) {
      std::vector<int> effective;
      for (std::size_t e = 0; e < topology.link_count(); ++e) {
        const TopologyLink& link = topology.link(LinkId(static_cast<std::uint32_t>(e)));
        effective.push_back(program.add_column({}));
        program.add_entry(capacity[e], effective[e], 1);  // (4)
        program.add_entry(egress[link.from.index()], effective[e], 1);
        program.add_entry(ingress[link.to.index()], effective[e], 1);
      }
      for (const std::vector<Path>& paths : problem.paths[i]) {
        const int reach = program.add_row({-kLpInfinity, 0});  // (2)
        program.add_entry(reach, known->second, problem.sessions[i].fraction);
        std::vector<int> share;
        for (std::size_t e = 0; e < topology.link_count(); ++e) {  // (3)
          share.push_back(program.add_row({-kLpInfinity, 0}));
          program.add_entry(share[e], effective[e], -1);
        }
        for (const Path& path : paths) {
          const int flow = program.add_column({});
          program.add_entry(reach, flow, -1);
          for (const LinkId link : path.links) program.add_entry(share[link.index()], flow, 1);
        }
      }
    }
  }
  const Result<Solution> solution = solve(program);
  REQUIRE(solution.is_ok());
  return solution->objective * kScale;
}

void check_shots(const Scenario& scenario, const PathRules& rules, int shots) {
  const Problem problem = path_problem(scenario, rules).value();
  const Result<ShotsAnswer> answer = run_shots(problem, shots);
  REQUIRE(answer.is_ok());
  for (const ShotTrace& shot : answer->trace) {
    const double expected = literal_optimum(problem, shot);
    CHECK(std::abs(shot.optimum_bps - expected) <= 1e-6 * expected + 10.0);
  }
}

Topology random_topology(std::mt19937_64& random, std::size_t nodes) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < nodes; ++v) names.push_back(fmt::format("n{}", v));
  Topology topology = named_nodes(names);
  std::uniform_real_distribution<double> number(0.0, 1.0);
  for (std::size_t u = 0; u < nodes; ++u) {
    for (std::size_t v = 0; v < nodes; ++v) {
      // A ring keeps everyone reachable.
      if (u == v || (v != (u + 1) % nodes && number(random) > 0.35)) continue;
      link(topology, names[u], names[v], 1 + 9 * number(random));
    }
    if (number(random) < 0.3) REQUIRE(topology.set_limits(node(u), 12 * kMbps, 9 * kMbps).is_ok());
  }
  return topology;
}

TEST_CASE("each program's optimum is that of the equations as the paper has them") {
  for (std::uint64_t round = 0; round < 12; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    Scenario scenario = scenario_on(random_topology(random, 5 + random() % 3));
    scenario.policy.paths = {round % 2 == 0 ? PathKind::kShortest : PathKind::kWidest, 1 + random() % 4};
    const std::size_t n = scenario.topology.node_count();
    add_broadcast(scenario, random() % n);
    add_collective(scenario, CollectiveOp::kBroadcast, {node(1), node(3), node(4)}).weight = 2.5;
    add_collective(scenario, CollectiveOp::kScatter, {node(2), node(0), node(3)}, 1000);
    add_collective(scenario, CollectiveOp::kAllReduce, everyone(scenario.topology), 999'999);
    for (const PathRules& rules : {kSquare, kMaxThroughput, kShortestPath, kMultiCommodityFlow}) {
      check_shots(scenario, rules, 3);
    }
  }
}

TEST_CASE("what a shot takes is what the next one finds missing") {
  Scenario scenario = scenario_on(mesh(6, seed()));
  for (std::size_t v = 0; v < 3; ++v) add_broadcast(scenario, v);
  const Problem problem = path_problem(scenario, kSquare).value();
  const Result<ShotsAnswer> answer = run_shots(problem, 2);
  REQUIRE(answer.is_ok());
  REQUIRE(answer->trace.size() == 3);
  CHECK(answer->trace[0].active.size() == 3);
  CHECK(answer->trace[0].dropped.size() == 1);
  CHECK(answer->trace[1].active.size() == 2);
  CHECK(answer->trace[2].objective == ShotTrace::Objective::kThroughput);
  CHECK(answer->trace[2].active.size() == 3);
  CHECK(answer->trace[2].dropped.empty());
  CHECK(answer->trace[0].residual_capacity_bps == problem.network.capacity_bps);
  Network left = problem.network;
  // All of it together: the sum over sessions of x_i(e) is at most the capacity.
  subtract(problem, answer->allocations, problem.network, left);
  double used = 0;
  for (const Allocation& allocation : answer->allocations) {
    for (const auto& [link_id, rate] : allocation.link_bps) used += rate;
  }
  double taken = 0;
  for (std::size_t e = 0; e < left.capacity_bps.size(); ++e) {
    CHECK(left.capacity_bps[e] >= 0);
    taken += problem.network.capacity_bps[e] - left.capacity_bps[e];
    for (std::size_t shot = 1; shot < 3; ++shot) {
      CHECK(answer->trace[shot].residual_capacity_bps[e] <= answer->trace[shot - 1].residual_capacity_bps[e]);
    }
  }
  CHECK(used == doctest::Approx(taken).epsilon(1e-6));
}

TEST_CASE("a collective is dropped when it holds the others back") {
  // p -> q (1 Mbit/s) and r -> s (5 Mbit/s) share nothing: the first shot is held by p -> q.
  Topology topology = named_nodes({"p", "q", "r", "s"});
  link(topology, "p", "q", 1);
  link(topology, "r", "s", 5);
  Scenario scenario = scenario_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kBroadcast, {node(2), node(3)});
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
  const Result<ShotsAnswer> answer = run_shots(path_problem(scenario, kSquare).value(), 2);
  REQUIRE(answer.is_ok());
  REQUIRE(answer->trace.size() == 2);  // after two shots nothing is left to fill
  CHECK(answer->trace[0].optimum_bps == doctest::Approx(1 * kMbps));
  CHECK(answer->trace[0].dropped == std::vector<CollectiveId>{CollectiveId(1)});
  CHECK(answer->trace[1].optimum_bps == doctest::Approx(4 * kMbps));
  CHECK(answer->collective_bps[0] == doctest::Approx(5 * kMbps));
  CHECK(answer->collective_bps[1] == doctest::Approx(1 * kMbps));
}

TEST_CASE("at level zero every collective that cannot grow goes at once") {
  // Three broadcasts share p -> q and exhaust it; the fourth has a link of its own. The
  // second shot finds level zero and drops both that are left on p -> q.
  Topology topology = named_nodes({"p", "q", "r", "s"});
  link(topology, "p", "q", 3);
  link(topology, "r", "s", 5);
  Scenario scenario = scenario_on(std::move(topology));
  for (int i = 0; i < 3; ++i) add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(1)});
  add_collective(scenario, CollectiveOp::kBroadcast, {node(2), node(3)});
  const Result<ShotsAnswer> answer = run_shots(path_problem(scenario, kSquare).value(), 3);
  REQUIRE(answer.is_ok());
  REQUIRE(answer->trace.size() == 3);
  CHECK(answer->trace[1].optimum_bps == doctest::Approx(0));
  CHECK(answer->trace[1].dropped.size() == 2);
  CHECK(answer->trace[2].active == std::vector<CollectiveId>{CollectiveId(3)});
  CHECK(answer->collective_bps[3] == doctest::Approx(5 * kMbps));
}

TEST_CASE("trees that fall short within the program's flows use what links have to spare") {
  // Flows as in the butterfly, where trees carry 1.5 of 2, and direct links that no flow uses.
  Topology topology = butterfly();
  link(topology, "s", "x", 1);
  link(topology, "s", "y", 1);
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy.paths = {PathKind::kAll, 0};
  add_collective(scenario, CollectiveOp::kBroadcast, {node(0), node(5), node(6)});
  const Problem problem = path_problem(scenario, kSquare).value();
  ShotsAnswer shots;
  shots.allocations = empty_allocations(problem);
  shots.collective_bps = {2 * kMbps};
  Allocation& allocation = shots.allocations[0];
  int flows = 0;
  for (std::size_t j = 0; j < 2; ++j) {
    for (std::size_t p = 0; p < problem.paths[0][j].size(); ++p) {
      std::string names;
      for (const NodeId v : problem.paths[0][j][p].nodes) names += scenario.topology.node(v).name;
      if (names != "sax" && names != "sbcdx" && names != "sby" && names != "sacdy") continue;
      allocation.path_bps[j][p] = 1 * kMbps;
      ++flows;
    }
  }
  REQUIRE(flows == 4);
  allocation.rate_bps = 2 * kMbps;
  allocation.link_bps = effective_rates(problem.paths[0], allocation.path_bps);

  const Result<std::vector<PlanStream>> within = realise(problem, 0, allocation);
  REQUIRE(within.is_ok());
  double rate = 0;
  for (const PlanStream& stream : *within) rate += stream.rate_bps;
  CHECK(rate == doctest::Approx(1.5 * kMbps).epsilon(1e-3));

  Result<Plan> plan = assemble(problem, shots, "square");
  REQUIRE(plan.is_ok());
  CHECK(plan->sessions[0].rate_bps == doctest::Approx(2 * kMbps).epsilon(1e-3));
  CHECK(find_violations(*plan).empty());

  // A limit on what the source sends leaves no room: three links carry the 1.5.
  REQUIRE(scenario.topology.set_limits(node(0), 2 * kMbps, kUnlimited).is_ok());
  const Problem limited = path_problem(scenario, kSquare).value();
  plan = assemble(limited, shots, "square");
  REQUIRE(plan.is_ok());
  CHECK(plan->sessions[0].rate_bps < 1.8 * kMbps);
  CHECK(find_violations(*plan).empty());
}

}  // namespace
}  // namespace square::planning
