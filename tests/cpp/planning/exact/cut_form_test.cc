// All-reduces and others that reach all nodes: rates by cuts against the program over trees, proofs against
// the rates, and few trees against what the overlay carries.
#include "planning/exact/cut_form.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "seed_step.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

void add_collectives(Drawing& drawing, Scenario& scenario, const std::vector<NodeId>& ids) {
  for (std::size_t c = 0; c < 1 + drawing.below(3); ++c) {
    CollectiveSpec spec;
    spec.id = CollectiveId(static_cast<std::uint32_t>(c));
    spec.tenant = fmt::format("tenant {}", c);
    const CollectiveOp ops[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllReduce, CollectiveOp::kBroadcast,
                                CollectiveOp::kReduce, CollectiveOp::kAllGather};
    spec.op = c == 0 ? CollectiveOp::kAllReduce : ops[drawing.below(5)];
    spec.members = ids;
    spec.root = ids[drawing.below(ids.size())];
    spec.weight = drawing.number() < 0.5 ? 1.0 : 0.25 + drawing.number();
    scenario.tenants.push_back({spec.tenant});
    scenario.collectives.push_back(std::move(spec));
  }
}

Scenario drawn(std::uint64_t number, std::size_t nodes) {
  Drawing drawing(number);
  Scenario scenario;
  scenario.policy.name = "exact";
  const std::vector<NodeId> ids = drawing.add_overlay(scenario.topology, nodes);
  add_collectives(drawing, scenario, ids);
  return scenario;
}

TEST_CASE("rates by cuts are those of the program over trees, and their proofs hold") {
  for (std::uint64_t k = 0; k < 200; k += square::test::kSeedStep) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(drawn(seed() + k, 4 + k % 6));
    const Instance& instance = made.instance;
    const auto answer = cut_form_rates(instance);
    REQUIRE(answer.is_ok());
    REQUIRE(answer->has_value());
    check_against_trees(instance, (*answer)->rate);
    for (std::size_t c = 0; c < (*answer)->rate.size(); ++c) {
      CAPTURE(c);
      double whole = 0.0;
      for (const double share : (*answer)->share[c]) whole += share;
      if (!(*answer)->share[c].empty()) CHECK(whole == doctest::Approx((*answer)->rate[c]));
    }
    for (const ProvenLevel& level : (*answer)->levels)
      CHECK(level.proof.bound == doctest::Approx(level.level).epsilon(1e-6));
  }
}

TEST_CASE("rates by cuts are for sessions that reach all nodes without bounds") {
  Scenario one_less = drawn(seed(), 6);
  one_less.collectives[0].members.pop_back();
  CHECK_FALSE(cut_form_rates(ReadScenario(std::move(one_less)).instance).value().has_value());
  Scenario bounded = drawn(seed(), 6);
  bounded.collectives[0].max_latency.assign(6, std::chrono::hours(1));
  CHECK_FALSE(cut_form_rates(ReadScenario(std::move(bounded)).instance).value().has_value());
}

// Sums over trees, checked by the validator: spanning, acyclic, within capacities and limits.
TEST_CASE("large overlays are carried by few trees, nearly at the rates that cuts allow") {
  std::size_t streams = 0;
  std::size_t sessions = 0;
  for (std::uint64_t k = 0; k < 10; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const Scenario scenario = drawn(seed() + 1000 + k, 18 + k);
    if (scenario.topology.link_count() <= 256) continue;
    const Result<PlanResult> result = make_plan(scenario);
    REQUIRE(result.is_ok());
    const Plan& plan = result->plan;
    CHECK(find_violations(plan).empty());
    for (const PlanCollective& collective : plan.collectives) {
      CHECK(collective.rate_bps >= 0.98 * collective.lp_rate_bps * (1.0 - 1e-9));
      CHECK(collective.rate_bps <= collective.lp_rate_bps * (1.0 + 1e-9));
    }
    CHECK(plan.certificate.levels.front().bound_bps ==
          doctest::Approx(*plan.certificate.level_bound_bps).epsilon(1e-6));
    for (const PlanSession& session : plan.sessions) streams += session.streams.size();
    sessions += plan.sessions.size();
  }
  MESSAGE(streams, " streams in ", sessions, " sessions");
  CHECK(sessions > 0);
  CHECK(streams <= 8 * sessions);
}

// One all-reduce on a mesh N(10, 3): 32 sites, and what cuts prove to within 1e-6.
// A link that is slower than the one the other way has something left for what goes back on it.
void check_room_for_answers(const Topology& topology, const Plan& plan) {
  std::map<std::pair<NodeId, NodeId>, double> load;
  for (const PlanSession& session : plan.sessions) {
    for (const PlanStream& stream : session.streams) {
      for (const auto& link : stream.links) load[link] += stream.rate_bps;
    }
  }
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(e));
    const double other = topology.link(*topology.find_link(link.to, link.from)).properties.capacity_bps;
    const double own = link.properties.capacity_bps;
    const double back = std::min(0.035 * std::max(other - own, 0.0), own / 2);
    CAPTURE(e);
    CHECK(load[{link.from, link.to}] <= (own - back) * (1 + 1e-9));
  }
}

TEST_CASE("an all-reduce of 32 sites") {
  Scenario scenario;
  scenario.policy.name = "exact";
  std::mt19937_64 random(seed());
  std::normal_distribution<double> capacity(10e6, 3e6);
  double whole = 0.0;
  for (int v = 0; v < 32; ++v) REQUIRE(scenario.topology.add_node({.name = fmt::format("n{}", v)}).is_ok());
  CollectiveSpec spec;
  spec.id = CollectiveId(0);
  spec.tenant = "alice";
  spec.op = CollectiveOp::kAllReduce;
  for (std::uint32_t u = 0; u < 32; ++u) {
    spec.members.emplace_back(u);
    for (std::uint32_t v = 0; v < 32; ++v) {
      if (u == v) continue;
      LinkProperties link;
      link.capacity_bps = std::max(1e6, capacity(random));
      whole += link.capacity_bps;
      REQUIRE(scenario.topology.add_link(NodeId(u), NodeId(v), link).is_ok());
    }
  }
  scenario.tenants.push_back({"alice"});
  scenario.collectives.push_back(spec);
  const Result<PlanResult> result = make_plan(scenario);
  REQUIRE(result.is_ok());
  CHECK(find_violations(result->plan).empty());
  const PlanCollective& collective = result->plan.collectives.front();
  // A tree out and a tree in for each bit, over 31 links each, and no link is left out.
  CHECK(collective.lp_rate_bps == doctest::Approx(whole / 62).epsilon(1e-6));
  CHECK(result->plan.certificate.levels.front().bound_bps == doctest::Approx(whole / 62).epsilon(1e-6));
  CHECK(collective.rate_bps >= 0.98 * collective.lp_rate_bps);
  std::size_t streams = 0;
  for (const PlanSession& session : result->plan.sessions) streams += session.streams.size();
  CHECK(streams <= 8 * result->plan.sessions.size());
  check_room_for_answers(scenario.topology, result->plan);
}

}  // namespace
}  // namespace square::planning
