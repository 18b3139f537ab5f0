// The policy "exact" on overlays whose optimum is known.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "planning/scenarios.h"
#include "square/validator.h"

namespace square::testing {
namespace {

constexpr double kMillisecond = 1e-3;

Scenario exact_on(Topology topology) {
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy.name = "exact";
  return scenario;
}

CollectiveSpec& add(Scenario& scenario, CollectiveOp op, std::size_t root, std::vector<NodeId> members,
                    std::uint64_t bytes = 1'000'000) {
  CollectiveSpec& spec = scenario.collectives.emplace_back();
  spec.id = CollectiveId(static_cast<std::uint32_t>(scenario.collectives.size() - 1));
  spec.tenant = "t";
  spec.op = op;
  spec.root = node(root);
  spec.members = std::move(members);
  spec.size_bytes = bytes;
  return spec;
}

Plan checked_plan(const Scenario& scenario) {
  Result<PlanResult> result = make_plan(scenario);
  REQUIRE_MESSAGE(result.is_ok(), result.status().message());
  CHECK(find_violations(result->plan).empty());
  return std::move(result->plan);
}

double worst_gap(const Plan& plan) {
  double worst = 0.0;
  const std::vector<LevelGap> gaps = certified_gaps(plan).value();
  for (const LevelGap& gap : gaps) worst = std::max(worst, gap.lp_gap);
  return worst;
}

void both_ways(Topology& topology, std::string_view a, std::string_view b, double mbps, double ms = 0.0,
               double usd_per_gb = 0.0) {
  const LinkProperties properties{mbps * kMbps, from_seconds(ms * kMillisecond), usd_per_gb};
  REQUIRE(topology.add_link(a, b, properties).is_ok());
  REQUIRE(topology.add_link(b, a, properties).is_ok());
}

Topology exact_triangle() {
  Topology topology = named_nodes({"a", "b", "c"});
  both_ways(topology, "a", "b", 10);
  both_ways(topology, "b", "c", 10);
  both_ways(topology, "c", "a", 10);
  return topology;
}

std::uint64_t bytes_of(const Plan& plan, SessionKind kind) {
  std::uint64_t sum = 0;
  for (const PlanSession& session : plan.sessions) sum += session.kind == kind ? session.size_bytes : 0;
  return sum;
}

}  // namespace

// What hosts get of whose links nothing is known. By trees that were looked for the second takes a minute.
TEST_CASE("on a mesh of equal links members send straight to one another") {
  constexpr std::uint64_t kBytes = 6 * 32 * 1000;  // in equal parts
  for (const std::size_t nodes : {6U, 32U}) {
    CAPTURE(nodes);
    std::vector<std::string> names;
    for (std::size_t v = 0; v < nodes; ++v) names.push_back(fmt::format("n{:02}", v));
    Scenario scenario = exact_on(std::move(full_mesh(names, LinkProperties{})).value());
    add(scenario, CollectiveOp::kAllReduce, 0, everyone(scenario.topology), kBytes);
    add(scenario, CollectiveOp::kAllGather, 0, everyone(scenario.topology), kBytes);
    const Plan plan = checked_plan(scenario);
    CHECK(worst_gap(plan) < 1e-8);
    for (const PlanSession& session : plan.sessions) {
      REQUIRE(session.streams.size() == 1);
      for (const auto& [from, to] : session.streams.front().links)
        CHECK((session.kind == SessionKind::kReduce ? to : from) == session.root);
    }
  }
}

TEST_CASE("a scenario that names no policy can plan sums over relays") {
  const Result<Scenario> scenario = parse_scenario(
      "[overlay]\nmesh = ['a', 'b', 'c']\ncapacity_mbps = 10\n"
      "[[collective]]\ntenant = 'x'\nop = 'all_reduce'\nbytes = 9_000_000\n",
      "sum.toml", ".");
  REQUIRE(scenario.is_ok());
  const Plan plan = planned(*scenario).plan;
  CHECK(plan.policy == "exact");
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(15e6));
}

TEST_CASE("exact: a broadcast and a reduce on a exact_triangle take both directions of every link") {
  Scenario scenario = exact_on(exact_triangle());
  add(scenario, CollectiveOp::kBroadcast, 0, everyone(scenario.topology));
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(20 * kMbps));
  add(scenario, CollectiveOp::kReduce, 0, everyone(scenario.topology));
  const Plan plan = checked_plan(scenario);
  // The broadcast fills what leads away from the root, the reduce what leads to it.
  CHECK(plan.collectives[0].rate_bps + plan.collectives[1].rate_bps == doctest::Approx(30 * kMbps));
  CHECK(plan.min_rate_bps == doctest::Approx(15 * kMbps));
  CHECK(worst_gap(plan) < 1e-6);
}

TEST_CASE("exact: the shares of a planned all-reduce are chosen so that all capacity is used") {
  Scenario scenario = exact_on(mesh(5, seed()));
  double capacity = 0.0;
  for (std::uint32_t e = 0; e < scenario.topology.link_count(); ++e) {
    capacity += scenario.topology.link(LinkId(e)).properties.capacity_bps;
  }
  add(scenario, CollectiveOp::kAllReduce, 0, everyone(scenario.topology), 1'000'003);
  const Plan plan = checked_plan(scenario);
  // Every byte crosses n - 1 links on its way to a root and n - 1 from it.
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(capacity / 8.0));
  CHECK(bytes_of(plan, SessionKind::kReduce) == 1'000'003);
  CHECK(bytes_of(plan, SessionKind::kMulticast) == 1'000'003);
  CHECK(worst_gap(plan) < 1e-6);
}

TEST_CASE("exact: the butterfly's trees carry 1.5, its program 2") {
  Scenario scenario = exact_on(butterfly());
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(5), node(6)});
  scenario.policy.coding = Coding::kOff;
  const Plan plan = checked_plan(scenario);
  CHECK(plan.collectives[0].lp_rate_bps == doctest::Approx(2 * kMbps));
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(1.5 * kMbps));
  CHECK(worst_gap(plan) < 1e-6);
  CHECK_FALSE(plan.sessions[0].paths.empty());
}

TEST_CASE("exact: rates without streams are those with them") {
  Scenario scenario = exact_on(mesh(6, seed()));
  add(scenario, CollectiveOp::kBroadcast, 0, everyone(scenario.topology));
  add(scenario, CollectiveOp::kBroadcast, 1, {node(1), node(2), node(4)}).weight = 3.0;
  const Plan whole = checked_plan(scenario);
  const Plan rates = make_plan(scenario, {.streams = false}).value().plan;
  CHECK_FALSE(rates.realised);
  for (std::size_t c = 0; c < 2; ++c) {
    CHECK(rates.collectives[c].lp_rate_bps == doctest::Approx(whole.collectives[c].rate_bps));
    CHECK(rates.collectives[c].bound_bps == doctest::Approx(whole.collectives[c].bound_bps));
  }
}

TEST_CASE("exact: a latency bound keeps streams off the slow detour") {
  Topology topology = named_nodes({"a", "b", "c"});
  both_ways(topology, "a", "b", 10, 50);
  both_ways(topology, "a", "c", 10, 40);
  both_ways(topology, "c", "b", 10, 40);
  Scenario scenario = exact_on(std::move(topology));
  CollectiveSpec& spec = add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(1)});
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(20 * kMbps));
  spec.max_latency = {Duration::max(), from_seconds(80 * kMillisecond)};
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(20 * kMbps));
  spec.max_latency[1] = from_seconds(79 * kMillisecond);
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(10 * kMbps));
  spec.max_latency[1] = from_seconds(49 * kMillisecond);
  const Result<PlanResult> refused = make_plan(scenario);
  REQUIRE(refused.status().code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().message().find("from a to b within 49 ms") != std::string::npos);
}

TEST_CASE("exact: what is avoided relays and carries nothing") {
  Scenario scenario = exact_on(exact_triangle());
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(1)});
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(20 * kMbps));
  scenario.policy.avoid_nodes = {node(2)};
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(10 * kMbps));
  scenario.policy.avoid_links = {*scenario.topology.find_link(node(0), node(1))};
  const Result<PlanResult> refused = make_plan(scenario);
  REQUIRE(refused.status().code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().message().find("avoids") != std::string::npos);
  // It can still be a member.
  scenario.policy.avoid_links.clear();
  scenario.collectives[0].members.push_back(node(2));
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(10 * kMbps));
}

TEST_CASE("exact: the least cost of a rate, the best rate of a budget, and what lies between") {
  Topology topology = named_nodes({"a", "b", "c"});
  both_ways(topology, "a", "b", 10, 0, 0.10);
  both_ways(topology, "a", "c", 10, 0, 0.01);
  both_ways(topology, "c", "b", 10, 0, 0.02);
  Scenario scenario = exact_on(std::move(topology));
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(1)});
  const double hourly = 3600.0 / 8e9;  // of a bit per second at one dollar a GB

  scenario.policy.objective = Objective::kCost;
  scenario.collectives[0].required_bps = 15 * kMbps;
  const Plan cheap = checked_plan(scenario);
  const double expected = hourly * kMbps * (10 * 0.03 + 5 * 0.10);
  CHECK(cheap.cost_usd_per_hour == doctest::Approx(expected));
  CHECK(cheap.certificate.cost_bound_usd_per_hour.value() == doctest::Approx(expected));
  CHECK(cheap.collectives[0].rate_bps == doctest::Approx(15 * kMbps));
  scenario.collectives[0].required_bps = 25 * kMbps;
  const Status refused = make_plan(scenario).status();
  REQUIRE(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("80%") != std::string::npos);

  scenario.policy.objective = Objective::kFair;
  scenario.collectives[0].required_bps.reset();
  scenario.policy.budget_usd_per_hour = expected;
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(15 * kMbps));
  scenario.policy.budget_usd_per_hour.reset();

  const std::vector<FrontierPoint> frontier = cost_frontier(scenario, 4).value();
  REQUIRE(frontier.size() == 4);
  CHECK(frontier[1].level_bps == doctest::Approx(10 * kMbps));
  CHECK(frontier[1].cost_usd_per_hour == doctest::Approx(hourly * kMbps * 10 * 0.03));
  CHECK(frontier[3].cost_usd_per_hour == doctest::Approx(hourly * kMbps * (10 * 0.03 + 10 * 0.10)));
  for (const FrontierPoint& point : frontier) {
    CHECK(point.cost_bound_usd_per_hour == doctest::Approx(point.cost_usd_per_hour));
  }
}

TEST_CASE("exact: headroom plans for less and says what that costs") {
  Topology topology = named_nodes({"a", "b"});
  REQUIRE(topology.add_link("a", "b", LinkProperties{10 * kMbps, Duration(0), 0.0, 2 * kMbps}).is_ok());
  Scenario scenario = exact_on(std::move(topology));
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(1)});
  scenario.policy.headroom = 2.0;
  const Plan plan = checked_plan(scenario);
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(6 * kMbps));
  CHECK(plan.links[0].capacity_bps == doctest::Approx(6 * kMbps));
  CHECK(plan.headroom.value().nominal_min_rate_bps == doctest::Approx(10 * kMbps));
  scenario.policy.headroom = 5.0;
  CHECK(make_plan(scenario).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("exact: fewer streams cost rate, and the plan says how much") {
  Scenario scenario = exact_on(mesh(6, seed()));
  add(scenario, CollectiveOp::kBroadcast, 0, everyone(scenario.topology));
  add(scenario, CollectiveOp::kAllReduce, 0, {node(1), node(2), node(3)});
  const Plan whole = checked_plan(scenario);
  double before = 0.0;
  for (const std::size_t most : {1U, 2U, 4U}) {
    CAPTURE(most);
    scenario.policy.max_streams = most;
    const Plan few = checked_plan(scenario);
    for (const PlanSession& session : few.sessions) CHECK(session.streams.size() <= most);
    for (std::size_t c = 0; c < 2; ++c) {
      CHECK(few.collectives[c].lp_rate_bps == doctest::Approx(whole.collectives[c].lp_rate_bps));
    }
    CHECK(few.min_rate_bps <= whole.min_rate_bps * (1.0 + 1e-6));
    CHECK(few.min_rate_bps > 0.0);
    before = few.min_rate_bps;
  }
  CHECK(before > 0.5 * whole.min_rate_bps);
}

TEST_CASE("exact: no more trees than resources and sessions") {
  Scenario scenario = exact_on(mesh(8, seed()));
  for (std::size_t root = 0; root < 8; ++root)
    add(scenario, CollectiveOp::kBroadcast, root, everyone(scenario.topology));
  const Plan plan = checked_plan(scenario);
  std::size_t trees = 0;
  for (const PlanSession& session : plan.sessions) trees += session.streams.size();
  CHECK(trees <= plan.links.size() + plan.sessions.size() - 1);
}

TEST_CASE("exact: a deadline gives the best so far with its gap") {
  Scenario scenario = exact_on(mesh(12, seed()));
  for (std::size_t root = 0; root < 12; ++root) {
    add(scenario, CollectiveOp::kBroadcast, root, {node(root), node((root + 1) % 12), node((root + 5) % 12)});
  }
  const Plan exact = checked_plan(scenario);
  // A slow machine has no bound yet when the first of them is over.
  std::optional<double> bound_bps;
  for (double seconds = 1e-6; !bound_bps; seconds *= 8) {
    REQUIRE(seconds < 60);
    scenario.policy.deadline_seconds = seconds;
    const Plan hurried = checked_plan(scenario);
    CHECK(hurried.min_rate_bps > 0.0);
    CHECK(hurried.min_rate_bps <= exact.min_rate_bps * (1.0 + 1e-6));
    bound_bps = hurried.certificate.level_bound_bps;
  }
  CHECK(*bound_bps >= exact.min_rate_bps * (1.0 - 1e-6));
}

TEST_CASE("exact: no deadline makes a plan that is below a quick one") {
  Scenario scenario = exact_on(mesh(20, seed()));
  for (std::size_t root = 0; root < 20; ++root) {
    std::vector<NodeId> members;
    for (std::size_t member = 0; member < 20; ++member) members.push_back(node((root + member) % 20));
    add(scenario, CollectiveOp::kAllReduce, root, std::move(members));
  }
  const auto quick = make_quick_plan(scenario);
  REQUIRE(quick.is_ok());
  for (const double seconds : {1e-6, 0.02, 0.2}) {
    scenario.policy.deadline_seconds = seconds;
    const Plan plan = checked_plan(scenario);
    CHECK_FALSE(plan.provisional);
    CHECK(plan.min_rate_bps >= quick->plan.min_rate_bps * (1.0 - 1e-9));
  }
}

TEST_CASE("exact: nothing to send is a plan") {
  Scenario scenario = exact_on(named_nodes({"a", "b"}));
  checked_plan(scenario);
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0)});
  const Plan plan = checked_plan(scenario);
  CHECK(plan.sessions.empty());
  scenario.policy.objective = Objective::kCost;
  scenario.collectives[0].required_bps = 1e6;
  CHECK(checked_plan(scenario).cost_usd_per_hour == 0.0);
}

TEST_CASE("exact: a bound on latency leaves a finite certificate") {
  Topology topology = named_nodes({"a", "b", "c", "d"});
  both_ways(topology, "a", "b", 10, 10);
  both_ways(topology, "b", "c", 10, 10);
  both_ways(topology, "c", "d", 10, 10);
  both_ways(topology, "d", "a", 10, 10);
  Scenario scenario = exact_on(std::move(topology));
  add(scenario, CollectiveOp::kBroadcast, 0, everyone(scenario.topology))
      .max_latency.assign(4, from_seconds(0.02));
  CHECK(worst_gap(checked_plan(scenario)) < 1.0);
}

TEST_CASE("exact: free links carry no more than is asked for") {
  Scenario scenario = exact_on(exact_triangle());
  add(scenario, CollectiveOp::kBroadcast, 0, everyone(scenario.topology)).required_bps = 5 * kMbps;
  scenario.policy.objective = Objective::kCost;
  CHECK(checked_plan(scenario).collectives[0].rate_bps == doctest::Approx(5 * kMbps));
}

TEST_CASE("exact: large spanning sessions get all their rate in streams") {
  Scenario scenario = exact_on(mesh(24, seed()));
  for (std::size_t root = 0; root < 3; ++root)
    add(scenario, CollectiveOp::kBroadcast, root, everyone(scenario.topology));
  const Plan plan = checked_plan(scenario);
  for (const PlanCollective& collective : plan.collectives) {
    CHECK(collective.rate_bps == doctest::Approx(collective.lp_rate_bps).epsilon(1e-6));
  }
}

TEST_CASE("exact: capacities twelve orders of magnitude apart") {
  Topology topology = named_nodes({"a", "b", "c", "d"});
  both_ways(topology, "a", "b", 1e-6);
  both_ways(topology, "b", "c", 1e6);
  both_ways(topology, "c", "d", 1.0);
  Scenario scenario = exact_on(std::move(topology));
  add(scenario, CollectiveOp::kBroadcast, 0, {node(0), node(1)});
  add(scenario, CollectiveOp::kBroadcast, 1, {node(1), node(2)});
  add(scenario, CollectiveOp::kBroadcast, 3, {node(3), node(2)});
  const Plan plan = checked_plan(scenario);
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(1.0).epsilon(1e-6));
  CHECK(plan.collectives[1].rate_bps == doctest::Approx(1e12).epsilon(1e-6));
  CHECK(plan.collectives[2].rate_bps == doctest::Approx(1e6).epsilon(1e-6));
}

TEST_CASE("exact: a link that carries nothing measurable is left out") {
  Topology topology = named_nodes({"a", "b", "c", "d"});
  for (const auto& [from, to] : {std::pair("a", "b"), std::pair("a", "c"), std::pair("c", "d")})
    both_ways(topology, from, to, 1e6);
  both_ways(topology, "b", "c", 1e-18);
  both_ways(topology, "a", "d", 1e-18);
  for (const CollectiveOp op : {CollectiveOp::kBroadcast, CollectiveOp::kAllReduce}) {
    Scenario scenario = exact_on(topology);
    add(scenario, op, 0, {node(0), node(1), node(2)});
    const Plan plan = checked_plan(scenario);
    CHECK(plan.collectives[0].rate_bps == doctest::Approx(1e12).epsilon(1e-6));
  }
}

TEST_CASE("exact: figures that are too far apart are named") {
  const auto message_of = [](const Scenario& scenario) {
    const Status status = make_plan(scenario).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    return status.message();
  };
  Topology topology = mesh(4, 7);
  REQUIRE(topology.set_limits(node(1), 1e-14, kUnlimited).is_ok());
  Scenario limited = exact_on(topology);
  add(limited, CollectiveOp::kBroadcast, 0, {node(0), node(1), node(2)});
  add(limited, CollectiveOp::kBroadcast, 1, {node(0), node(1), node(3)});
  const std::string limit = message_of(limited);
  CHECK_MESSAGE(limit.find("the egress limit of \"n01\" has 1e-20 Mbit/s") != std::string::npos, limit);
  CHECK_MESSAGE(limit.find("the link \"n") != std::string::npos, limit);
}

}  // namespace square::testing
