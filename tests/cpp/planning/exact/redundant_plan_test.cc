// Plans with redundancy: the rate that is left for it, and what the validator makes of it.
#include <doctest/doctest.h>

#include <algorithm>

#include "planning/scenarios.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace testing;

Topology mesh(std::size_t nodes, double mbps) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < nodes; ++v) names.push_back(fmt::format("n{}", v));
  Topology topology = named_nodes(names);
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from != to) link(topology, from, to, mbps);
    }
  }
  return topology;
}

Scenario broadcast_on(Topology topology, std::vector<NodeId> members, std::uint32_t redundancy) {
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy = {};
  add_collective(scenario, CollectiveOp::kBroadcast, std::move(members));
  scenario.collectives.back().redundancy = redundancy;
  return scenario;
}

void check_valid(const Plan& plan) {
  for (const std::string& violation : find_violations(plan)) FAIL_CHECK(violation);
}

std::uint32_t redundancy_of(const PlanSession& session) {
  std::uint32_t least = session.codes.empty() ? 0 : kMaxRedundancy;
  for (const PlanCode& code : session.codes) least = std::min(least, code.redundancy);
  return least;
}

TEST_CASE("in a mesh of six each way that may be lost costs one link's rate") {
  for (std::uint32_t redundancy = 0; redundancy <= kMaxRedundancy; ++redundancy) {
    CAPTURE(redundancy);
    const Plan plan = planned(broadcast_on(mesh(6, 1), {node(0), node(1), node(2)}, redundancy)).plan;
    check_valid(plan);
    const PlanSession& session = plan.sessions.at(0);
    CHECK(session.rate_bps == doctest::Approx((5 - redundancy) * kMbps).epsilon(0.01));
    CHECK(redundancy_of(session) == redundancy);
    const bool all_coded = std::ranges::all_of(
        session.streams, [](const PlanStream& stream) { return stream.coded.has_value(); });
    CHECK(all_coded == (redundancy > 0));
  }
}

TEST_CASE("where the overlay has fewer ways than are asked for there is what it has") {
  Topology line = named_nodes({"a", "b", "c"});
  link(line, "a", "b", 1);
  link(line, "b", "c", 1);
  const Plan plan = planned(broadcast_on(std::move(line), {node(0), node(2)}, 2)).plan;
  check_valid(plan);
  CHECK(plan.sessions.at(0).codes.empty());
  CHECK(plan.sessions.at(0).rate_bps == doctest::Approx(kMbps));
  const Plan two = planned(broadcast_on(mesh(3, 1), {node(0), node(1)}, 4)).plan;
  check_valid(two);
  CHECK(redundancy_of(two.sessions.at(0)) == 1);
  CHECK(two.sessions.at(0).rate_bps == doctest::Approx(kMbps));
}

// What a broadcast could have with everything but one relay, whichever that is: who outlives its loss has no
// more.
double bound_of_losses(const Scenario& scenario, std::size_t nodes) {
  double least = kUnlimited;
  for (std::size_t lost = 3; lost < nodes; ++lost) {
    Scenario without = scenario;
    without.collectives.back().redundancy = 0;
    without.policy.avoid_nodes = {node(lost)};
    least = std::min(least, planned(without).plan.sessions.at(0).lp_rate_bps);
  }
  return least;
}

TEST_CASE("uneven networks are used as far as the redundancy allows, and beside others") {
  const std::uint64_t first = testing::seed();
  double part = 0;
  constexpr std::uint64_t kNetworks = 60;
  for (std::uint64_t seed = first; seed < first + kNetworks; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 chance(seed);
    const std::size_t nodes = 5 + chance() % 4;
    std::vector<std::string> names;
    for (std::size_t v = 0; v < nodes; ++v) names.push_back(fmt::format("n{}", v));
    Topology topology = named_nodes(names);
    for (const std::string& from : names) {
      for (const std::string& to : names) {
        if (from != to && chance() % 8 != 0)
          link(topology, from, to, 1.0 + static_cast<double>(chance() % 20));
      }
    }
    Scenario scenario = broadcast_on(std::move(topology), {node(0), node(1), node(2)}, 1);
    const Plan alone = planned(scenario).plan;
    check_valid(alone);
    CHECK(redundancy_of(alone.sessions.at(0)) == 1);
    const double bound = bound_of_losses(scenario, nodes);
    CHECK(alone.sessions.at(0).rate_bps < bound * 1.000001);
    part += alone.sessions.at(0).rate_bps / bound / kNetworks;
    add_collective(scenario, CollectiveOp::kAllReduce, {node(0), node(3), node(4)});
    const Plan both = planned(scenario).plan;
    check_valid(both);
    CHECK(redundancy_of(both.sessions.at(0)) == 1);
    CHECK(both.collectives.at(1).rate_bps > 0);
  }
  MESSAGE("on average ", part, " of what is left when the worst relay is lost");
  CHECK(part > 0.5);
}

TEST_CASE("what the validator is for: ways that meet, and sums that solve for nothing") {
  Plan plan = planned(broadcast_on(mesh(6, 1), {node(0), node(1), node(2)}, 1)).plan;
  check_valid(plan);
  PlanSession& session = plan.sessions.at(0);
  const auto sum = std::ranges::find_if(
      session.streams, [](const PlanStream& stream) { return !plain_block(*stream.coded).has_value(); });
  REQUIRE(sum != session.streams.end());
  SUBCASE("a sum without one of the blocks") { sum->coded->row[1] = 0; }
  SUBCASE("two blocks over one relay") {
    const auto over = [](const PlanStream& stream, NodeId relay) {
      return std::ranges::any_of(stream.links, [&](const auto& link) { return link.first == relay; });
    };
    const auto one = std::ranges::find_if(session.streams, [&](const auto& s) { return over(s, node(3)); });
    const auto other = std::ranges::find_if(session.streams, [&](const auto& s) { return over(s, node(4)); });
    REQUIRE(one != session.streams.end());
    REQUIRE(other != session.streams.end());
    other->links = one->links;
  }
  SUBCASE("less than it says") { session.codes.at(0).redundancy = 2; }
  CHECK_FALSE(find_violations(plan).empty());
}

TEST_CASE("what redundancy does not go with is refused, in words") {
  Scenario scenario = broadcast_on(mesh(4, 1), {node(0), node(1), node(2)}, 1);
  const auto refused = [&](std::string_view words) {
    const Status status = check_scenario(scenario);
    CAPTURE(status.message());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(words) != std::string::npos);
  };
  SUBCASE("another operation") {
    scenario.collectives.back().op = CollectiveOp::kAllReduce;
    refused("redundancy is for broadcast");
  }
  SUBCASE("bounds on latency") {
    scenario.collectives.back().max_latency.assign(3, std::chrono::seconds(1));
    refused("bounds on latency");
  }
  SUBCASE("too much") {
    scenario.collectives.back().redundancy = kMaxRedundancy + 1;
    refused("redundancy must be");
  }
  SUBCASE("another policy") {
    scenario.policy.name = "shortest-path";
    refused("redundancy");
  }
}

}  // namespace
}  // namespace square
