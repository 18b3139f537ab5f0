// Collectives that follow one another: each has all that its group has, and others what they had.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planning/exact/drawn_overlays.h"
#include "planning/scenarios.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kBroadcast, CollectiveOp::kAllReduce};

void add(Scenario& scenario, const std::string& tenant, const std::string& group, CollectiveOp op,
         const std::vector<NodeId>& members) {
  CollectiveSpec spec;
  spec.id = CollectiveId(static_cast<std::uint32_t>(scenario.collectives.size()));
  spec.tenant = tenant;
  spec.group = group;
  spec.op = op;
  spec.root = members.front();
  spec.members = members;
  spec.size_bytes = 1'000'000;
  if (std::ranges::find(scenario.tenants, tenant, &TenantSpec::name) == scenario.tenants.end())
    scenario.tenants.push_back({tenant});
  scenario.collectives.push_back(std::move(spec));
}

Scenario overlay(Drawing& drawing, std::size_t nodes, std::vector<NodeId>& ids) {
  Scenario scenario;
  scenario.policy.name = "exact";
  ids = drawing.add_overlay(scenario.topology, nodes);
  return scenario;
}

std::vector<NodeId> some(Drawing& drawing, std::vector<NodeId> ids, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) std::swap(ids[k], ids[k + drawing.below(ids.size() - k)]);
  ids.resize(count);
  return ids;
}

// Calls `check` with so many overlays of `least` and up to `spread` more nodes.
template <typename Check>
void draw(std::uint64_t count, std::size_t least, std::size_t spread, const Check& check) {
  for (std::uint64_t k = 0; k < count; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    Drawing drawing(seed() + k);
    std::vector<NodeId> ids;
    Scenario scenario = overlay(drawing, least + k % spread, ids);
    check(k, drawing, scenario, ids);
  }
}

// make_plan() validates what it makes.
Plan plan_of(const Scenario& scenario) {
  Result<PlanResult> made = make_plan(scenario);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  return std::move(made->plan);
}

// What the collective gets where there is no other.
double alone(const Scenario& scenario, std::size_t c) {
  Scenario only = scenario;
  only.collectives = {scenario.collectives[c]};
  return plan_of(only).collectives.front().rate_bps;
}

// As if all ran at once.
Plan at_once(Scenario scenario) {
  for (CollectiveSpec& collective : scenario.collectives) collective.group.clear();
  return plan_of(scenario);
}

TEST_CASE("a group that is alone: each collective has what it has without the others, and a proof") {
  draw(20, 4, 6, [](std::uint64_t k, Drawing& drawing, Scenario& scenario, const std::vector<NodeId>& ids) {
    for (std::size_t c = 0; c < 3; ++c)
      add(scenario, "a", "job", kOps[(k + c) % 4], c == 2 ? some(drawing, ids, 3) : ids);
    const Plan plan = plan_of(scenario);
    for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
      CAPTURE(c);
      CHECK(plan.collectives[c].rate_bps == doctest::Approx(alone(scenario, c)).epsilon(1e-6));
    }
    CHECK(plan.certificate.levels.size() >= 3);
    const std::vector<LevelGap> gaps = certified_gaps(plan).value();
    for (const LevelGap& gap : gaps) CHECK(gap.lp_gap < 1e-6);
  });
}

TEST_CASE("groups of the same nodes share what each of their collectives would have alone, by weight") {
  draw(12, 4, 5, [](std::uint64_t k, Drawing&, Scenario& scenario, const std::vector<NodeId>& ids) {
    for (const std::string tenant : {"a", "b"}) {
      for (std::size_t c = 0; c < 2; ++c) add(scenario, tenant, "job of " + tenant, kOps[(k + c) % 4], ids);
    }
    scenario.tenants[1].weight = 3.0;
    const Plan plan = plan_of(scenario);
    for (std::size_t c = 0; c < 4; ++c) {
      CAPTURE(c);
      const double part = c < 2 ? 0.25 : 0.75;
      CHECK(plan.collectives[c].rate_bps == doctest::Approx(part * alone(scenario, c)).epsilon(0.02));
    }
  });
}

TEST_CASE("a group and a collective of the same nodes, and groups that share some, fit together") {
  draw(40, 4, 5, [](std::uint64_t k, Drawing& drawing, Scenario& scenario, const std::vector<NodeId>& ids) {
    for (std::size_t c = 0; c < 2; ++c) add(scenario, "a", "job", kOps[(k + c) % 4], ids);
    add(scenario, "b", "", kOps[k % 4], ids);
    for (std::size_t c = 0; c < 2 + k % 3; ++c)
      add(scenario, c % 2 == 0 ? "b" : "c", "other", kOps[drawing.below(4)], some(drawing, ids, 2 + k % 3));
    if (k % 2 == 0) scenario.policy.deadline_seconds = 1e-4 * static_cast<double>(k + 1);
    const Plan plan = plan_of(scenario);
    for (const PlanCollective& collective : plan.collectives) CHECK(collective.rate_bps > 0.0);
  });
}

TEST_CASE("a group beside others takes nothing from them, and its collectives gain") {
  draw(20, 6, 4, [](std::uint64_t k, Drawing& drawing, Scenario& scenario, const std::vector<NodeId>& ids) {
    for (std::size_t c = 0; c < 3; ++c) add(scenario, "a", "job", kOps[(k + c) % 4], some(drawing, ids, 4));
    add(scenario, "b", "", kOps[k % 4], some(drawing, ids, 3));
    add(scenario, "c", "", CollectiveOp::kAllToAll, some(drawing, ids, 3));
    if (k % 3 == 0) scenario.policy.max_streams = 2;
    const Plan plan = plan_of(scenario);
    Scenario shared = scenario;
    shared.policy.max_streams = 0;
    const Plan before = at_once(shared);
    for (const PlanSession& session : plan.sessions) {
      if (scenario.policy.max_streams > 0) CHECK(session.streams.size() <= 2);
    }
    if (scenario.policy.max_streams > 0) return;
    // A group weighs what one of its collectives did: all at once they had a third of it each.
    for (std::size_t c = 0; c < 5; ++c) {
      CAPTURE(c);
      CHECK(plan.collectives[c].rate_bps > 0.0);
      CHECK(plan.collectives[c].rate_bps == plan.collectives[c].lp_rate_bps);
      if (c >= 3)
        CHECK(plan.collectives[c].rate_bps == doctest::Approx(before.collectives[c].rate_bps).epsilon(1e-6));
      if (c < 3) CHECK(plan.collectives[c].rate_bps >= before.collectives[c].rate_bps * (1.0 - 1e-6));
    }
  });
}

TEST_CASE("without its group a plan of collectives that follow one another puts too much on links") {
  Drawing drawing(seed());
  std::vector<NodeId> ids;
  Scenario scenario = overlay(drawing, 5, ids);
  for (const CollectiveOp op : kOps) add(scenario, "a", "job", op, ids);
  Plan plan = plan_of(scenario);
  CHECK(validate(plan).is_ok());
  plan.collectives[1].group = "another";
  const Status status = validate(plan);
  REQUIRE_FALSE(status.is_ok());
  CHECK(status.message().find("its load is given as") != std::string::npos);
}

}  // namespace
}  // namespace square::planning
