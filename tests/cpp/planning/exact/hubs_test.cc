// Copies made at one member: where arithmetic says that it is the optimum, it is that of the program.
#include "planning/exact/hubs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>

#include "planning/exact/balance.h"
#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

// A mesh of wide links among nodes with limits, of groups of some of them.
Scenario limited(std::uint64_t number, std::size_t nodes, std::size_t groups) {
  Drawing drawing(number);
  Scenario scenario;
  scenario.policy.name = "exact";
  std::vector<NodeId> ids;
  for (std::size_t v = 0; v < nodes; ++v) {
    TopologyNode node{.name = fmt::format("n{}", v)};
    node.egress_bps = 10e6 * (0.7 + drawing.number());
    node.ingress_bps = 20e6 * (0.7 + drawing.number());
    ids.push_back(scenario.topology.add_node(std::move(node)).value());
  }
  for (const NodeId from : ids) {
    for (const NodeId to : ids) {
      if (from != to) REQUIRE(scenario.topology.add_link(from, to, {.capacity_bps = 100e6}).is_ok());
    }
  }
  for (std::uint32_t c = 0; c < groups; ++c) {
    const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kBroadcast, CollectiveOp::kReduce,
                                CollectiveOp::kAllGather, CollectiveOp::kReduceScatter};
    CollectiveSpec spec;
    spec.id = CollectiveId(c);
    spec.tenant = fmt::format("tenant {}", c);
    spec.op = ops[drawing.below(5)];
    spec.members = ids;
    for (std::size_t k = spec.members.size(); k > 1; --k)
      std::swap(spec.members[k - 1], spec.members[drawing.below(k)]);
    spec.members.resize(2 + drawing.below(nodes - 1));
    spec.root = spec.members.front();
    spec.size_bytes = 1'000'000;
    scenario.tenants.push_back({spec.tenant, 0.5 + drawing.number()});
    scenario.collectives.push_back(std::move(spec));
  }
  return scenario;
}

std::size_t stream_count(const Carried& carried) {
  return std::accumulate(carried.trees.begin(), carried.trees.end(), std::size_t{0},
                         [](std::size_t sum, const auto& trees) { return sum + trees.size(); });
}

TEST_CASE("copies at hubs carry what the program over trees allows") {
  std::size_t answers = 0;
  std::size_t of_levels = 0;
  for (std::uint64_t k = 0; k < 60; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(limited(seed() + k, 4 + k % 3, 12));
    const std::optional<HubsAnswer> answer = carry_by_hubs(made.instance, nullptr);
    if (!answer.has_value()) continue;
    ++answers;
    of_levels += answer->levels.levels.size() > 1 ? 1 : 0;
    check_against_trees(made.instance, answer->levels.rate);
    for (const ProvenLevel& level : answer->levels.levels)
      CHECK(level.proof.bound == doctest::Approx(level.level).epsilon(1e-9));
  }
  CHECK(answers >= 20);
  CHECK(of_levels >= 1);
}

TEST_CASE("plans by hubs are sound, of many groups too, and few streams carry them") {
  for (std::uint64_t k = 0; k < 4; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const Scenario scenario = limited(seed() + k, 20, 300);
    const ReadScenario made(scenario);
    const std::optional<HubsAnswer> answer = carry_by_hubs(made.instance, nullptr);
    if (!answer.has_value()) continue;
    const Result<PlanResult> result = make_plan(scenario);
    REQUIRE(result.is_ok());
    CHECK(find_violations(result->plan).empty());
    CHECK(certified_gaps(result->plan).value().front().rate_gap < 1e-6);
    // A basic solution of a program would have no more: one for each group's session and each node.
    CHECK(stream_count(answer->carried) <= made.instance.demands.size() + 2 * 20 + 40);
  }
}

// Where two nodes are full at the same level, rounding leaves something of one.
TEST_CASE("levels that nodes reach together are one, whatever the weights") {
  Scenario scenario = limited(seed(), 4, 1);
  for (std::uint32_t v = 0; v < 4; ++v) REQUIRE(scenario.topology.set_limits(NodeId(v), 1e7, 1e7).is_ok());
  scenario.tenants.clear();
  scenario.collectives.clear();
  for (std::uint32_t c = 0; c < 4; ++c) {
    CollectiveSpec spec;
    spec.id = CollectiveId(c);
    spec.tenant = fmt::format("tenant {}", c);
    spec.members = {NodeId(c < 3 ? 0 : 2), NodeId(c < 3 ? 1 : 3)};
    spec.root = spec.members.front();
    spec.size_bytes = 1'000'000;
    scenario.tenants.push_back({spec.tenant, 0.1 * (c % 3 + 1)});
    scenario.collectives.push_back(std::move(spec));
  }
  const std::optional<HubsAnswer> answer = carry_by_hubs(ReadScenario(scenario).instance, nullptr);
  REQUIRE(answer.has_value());
  for (const ProvenLevel& level : answer->levels.levels) CHECK_FALSE(level.groups.empty());
  const Result<PlanResult> result = make_plan(scenario);
  REQUIRE(result.is_ok());
  CHECK(find_violations(result->plan).empty());
}

TEST_CASE("a node without a limit takes what the others have no room for") {
  const std::vector<BalanceUnit> units = {{4.0, {0, 1}}, {3.0, {0, 2}}, {2.0, {1, 2}}};
  const std::optional<BalanceParts> parts = balance(units, {1.0, 2.0, kUnlimited}, {});
  CHECK_FALSE(parts.has_value());  // the first unit is too much for its two
  const std::optional<BalanceParts> more = balance(units, {2.0, 2.0, kUnlimited}, {});
  REQUIRE(more.has_value());
  CHECK((*more)[0][0] == doctest::Approx(2.0));
  CHECK((*more)[0][1] == doctest::Approx(2.0));
  CHECK((*more)[1][1] == doctest::Approx(3.0));
}

TEST_CASE("hubs are no answer where links are narrow, or nodes have no limits") {
  Scenario scenario = limited(seed(), 5, 6);
  for (std::uint32_t e = 0; e < scenario.topology.link_count(); ++e)
    REQUIRE(scenario.topology.set_capacity(LinkId(e), 1e5).is_ok());
  CHECK_FALSE(carry_by_hubs(ReadScenario(scenario).instance, nullptr).has_value());
  scenario = limited(seed(), 5, 6);
  for (std::uint32_t v = 0; v < scenario.topology.node_count(); ++v)
    REQUIRE(scenario.topology.set_limits(NodeId(v), kUnlimited, kUnlimited).is_ok());
  CHECK_FALSE(carry_by_hubs(ReadScenario(std::move(scenario)).instance, nullptr).has_value());
}

TEST_CASE("a group that comes moves little of the others' copies") {
  std::size_t tried = 0;
  for (std::uint64_t k = 0; k < 20; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    Scenario scenario = limited(seed() + k, 12, 100);
    CollectiveSpec last = scenario.collectives.back();
    scenario.collectives.pop_back();
    HubMemory memory;
    if (!carry_by_hubs(ReadScenario(scenario).instance, &memory)) continue;
    const HubMemory before = memory;
    scenario.collectives.push_back(std::move(last));
    const ReadScenario more(std::move(scenario));
    const std::optional<HubsAnswer> warm = carry_by_hubs(more.instance, &memory);
    const std::optional<HubsAnswer> cold = carry_by_hubs(more.instance, nullptr);
    REQUIRE(warm.has_value() == cold.has_value());
    if (!warm) continue;
    ++tried;
    for (std::size_t c = 0; c < warm->levels.rate.size(); ++c)
      CHECK(warm->levels.rate[c] == doctest::Approx(cold->levels.rate[c]).epsilon(1e-9));
    // Sessions of which some other node makes copies now.
    std::size_t moved = 0;
    for (const auto& [session, parts] : before.by_session) {
      const auto& now = memory.by_session.at(session).parts;
      for (std::size_t n = 0; n < now.size(); ++n) {
        if ((parts.parts[n] > 0) != (now[n] > 0)) {
          ++moved;
          break;
        }
      }
    }
    CHECK(moved <= before.by_session.size() / 4);
  }
  CHECK(tried >= 5);
}

TEST_CASE("amounts fit into rooms wherever they can") {
  Drawing drawing(seed());
  for (int k = 0; k < 300; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    // Rooms are those of a way to give them out, drawn beforehand.
    const std::size_t nodes = 2 + drawing.below(6);
    std::vector<double> room(nodes, 0.0);
    std::vector<BalanceUnit> units(1 + drawing.below(20));
    for (BalanceUnit& unit : units) {
      for (std::size_t v = 0; v < nodes; ++v) {
        if (drawing.number() < 0.6 || (v + 1 == nodes && unit.nodes.empty()))
          unit.nodes.push_back(static_cast<int>(v));
      }
      for (const int v : unit.nodes) {
        const double part = drawing.number();
        unit.amount += part;
        unit.most.push_back(part + (drawing.number() < 0.5 ? 0.0 : 1.0));
        room[static_cast<std::size_t>(v)] += part;
      }
    }
    const std::optional<BalanceParts> parts = balance(units, room, {});
    REQUIRE(parts.has_value());
    std::vector<double> used(nodes, 0.0);
    for (std::size_t u = 0; u < units.size(); ++u) {
      CHECK(std::accumulate((*parts)[u].begin(), (*parts)[u].end(), 0.0) == doctest::Approx(units[u].amount));
      for (std::size_t n = 0; n < units[u].nodes.size(); ++n) {
        CHECK((*parts)[u][n] >= 0.0);
        CHECK((*parts)[u][n] <= units[u].most[n] + 1e-12);
        used[static_cast<std::size_t>(units[u].nodes[n])] += (*parts)[u][n];
      }
    }
    for (std::size_t v = 0; v < nodes; ++v) CHECK(used[v] <= room[v] + 1e-9);
    room.front() -= 1e-3 * room.front();
    if (room.front() > 0.0) CHECK_FALSE(balance(units, room, {}).has_value());
  }
}

TEST_CASE("amounts stay whole but for one part a node, however often rooms change") {
  Drawing drawing(seed());
  CAPTURE(seed());
  constexpr std::size_t kNodes = 8;
  std::vector<BalanceUnit> units(60);
  for (BalanceUnit& unit : units) {
    unit.amount = 0.5 + drawing.number();
    for (int v = 0; v < static_cast<int>(kNodes); ++v) {
      if (drawing.number() < 0.5 || v == 0) unit.nodes.push_back(v);
    }
  }
  BalanceParts parts;
  for (int change = 0; change < 50; ++change) {
    CAPTURE(change);
    std::vector<double> room(kNodes);
    double whole = 0.0;
    for (const BalanceUnit& unit : units) whole += unit.amount;
    for (double& one : room) one = whole / kNodes;
    const double moved = 0.3 * drawing.number() * room.back();
    room.back() -= moved;
    room.front() += moved;
    std::optional<BalanceParts> next = balance(units, room, std::move(parts));
    REQUIRE(next.has_value());
    parts = *std::move(next);
    std::size_t count = 0;
    std::vector<double> used(kNodes, 0.0);
    for (std::size_t u = 0; u < units.size(); ++u) {
      for (std::size_t n = 0; n < units[u].nodes.size(); ++n) {
        count += parts[u][n] > 0.0 ? 1 : 0;
        used[static_cast<std::size_t>(units[u].nodes[n])] += parts[u][n];
      }
    }
    CHECK(count <= units.size() + kNodes - 1);
    for (std::size_t v = 0; v < kNodes; ++v) CHECK(used[v] <= room[v] + 1e-9);
  }
}

}  // namespace
}  // namespace square::planning
