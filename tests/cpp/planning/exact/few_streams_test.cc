// `max_streams`: no more streams than that, and how much of the optimum they carry.
#include "planning/exact/few_streams.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "square/planner.h"

namespace square::planning {
namespace {

using testing::mesh;
using testing::seed;

// Three or four broadcasts to all or some of a mesh, or an all-reduce.
Scenario drawn(std::uint64_t number) {
  std::mt19937_64 random(number);
  Scenario scenario;
  scenario.policy.name = "exact";
  scenario.topology = mesh(8, number);
  const std::size_t kind = number % 3;
  for (std::uint32_t c = 0; c < (kind == 2 ? 1 : 3 + kind); ++c) {
    CollectiveSpec spec;
    spec.id = CollectiveId(c);
    spec.tenant = fmt::format("tenant {}", c);
    spec.op = kind == 2 ? CollectiveOp::kAllReduce : CollectiveOp::kBroadcast;
    for (std::uint32_t v = 0; v < 8; ++v) spec.members.emplace_back(v);
    std::ranges::shuffle(spec.members, random);
    if (kind == 1) spec.members.resize(5);
    spec.root = spec.members.front();
    scenario.tenants.push_back({spec.tenant});
    scenario.collectives.push_back(std::move(spec));
  }
  return scenario;
}

double least_rate(const Plan& plan) {
  double least = kUnlimited;
  for (const PlanCollective& collective : plan.collectives) least = std::min(least, collective.rate_bps);
  return least;
}

TEST_CASE("few streams carry most of what many do") {
  for (const auto& [most, expected] : {std::pair(2U, 0.8), std::pair(4U, 0.92)}) {
    CAPTURE(seed());
    CAPTURE(most);
    std::vector<double> parts;
    for (std::uint64_t k = 0; k < 30; ++k) {
      CAPTURE(k);
      Scenario scenario = drawn(seed() + k);
      const Result<PlanResult> whole = make_plan(scenario);
      REQUIRE(whole.is_ok());
      scenario.policy.max_streams = most;
      const Result<PlanResult> few = make_plan(scenario);
      REQUIRE(few.is_ok());
      for (const PlanSession& session : few->plan.sessions) CHECK(session.streams.size() <= most);
      parts.push_back(least_rate(few->plan) / least_rate(whole->plan));
    }
    std::ranges::sort(parts);
    MESSAGE("with ", most, " streams the least rate is ", parts[15], " of the optimum in the median, ",
            parts[0], " at worst");
    CHECK(parts[15] >= expected);
  }
}

// Rates come from cuts there, and from few trees already.
TEST_CASE("few streams on a large mesh") {
  Scenario scenario = drawn(seed() * 3 + 2);
  scenario.topology = mesh(18, seed());
  scenario.collectives[0].op = CollectiveOp::kAllReduce;
  scenario.collectives.resize(1);
  scenario.collectives[0].members.clear();
  for (std::uint32_t v = 0; v < 18; ++v) scenario.collectives[0].members.emplace_back(v);
  scenario.policy.max_streams = 3;
  const Result<PlanResult> few = make_plan(scenario);
  REQUIRE(few.is_ok());
  for (const PlanSession& session : few->plan.sessions) CHECK(session.streams.size() <= 3);
  CHECK(least_rate(few->plan) >= 0.9 * few->plan.collectives[0].lp_rate_bps);
}

}  // namespace
}  // namespace square::planning
