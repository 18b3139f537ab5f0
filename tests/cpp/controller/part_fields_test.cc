// A node's part has every member of a plan's structs, but for those that it has no use for.
#include <doctest/doctest.h>

#include "controller/part_reader.h"
#include "controller/plan_parts.h"
#include "full_plan.h"

using namespace square;
using namespace square::controller;
using namespace square::testing;
using plan_fields::are_same_member;

namespace {

// By name, so that none is left out of parts by mistake.
bool is_of_no_use(const auto& field) {
  const auto is = [&](auto... members) { return (... || are_same_member(field.member, members)); };
  return is(&Plan::solve_seconds, &Plan::min_rate_bps, &Plan::total_rate_bps, &Plan::jain,
            &Plan::cost_usd_per_hour, &Plan::budget_usd_per_hour, &Plan::realised, &Plan::headroom,
            &Plan::changes, &Plan::certificate) ||
         is(&PlanCollective::lp_rate_bps, &PlanCollective::bound_bps, &PlanCollective::completion_seconds,
            &PlanCollective::cost_usd_per_hour, &PlanCollective::sessions) ||
         is(&PlanSession::lp_rate_bps, &PlanSession::paths, &PlanSession::max_latency) ||
         is(&PlanLink::price_usd_per_gb, &PlanLink::most_bps, &PlanCode::Sink::byte_inverse);
}

}  // namespace

TEST_CASE("plan parts: a node reads every member that it has use for") {
  const Plan plan = full_plan();
  REQUIRE(members_at_default(plan).empty());
  const PlanParts parts(std::make_shared<const Plan>(plan));
  PartReader reader("b");
  const auto read = reader.read(parts.event_for("b")->plan());
  REQUIRE_MESSAGE(read.is_ok(), read.status().to_string());
  CHECK(
      plan_fields::same_fields(without(plan, [](const auto& field) { return is_of_no_use(field); }), **read));
}
