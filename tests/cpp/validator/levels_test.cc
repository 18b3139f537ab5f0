// What the duals of levels prove, and that nothing else is believed.
#include <doctest/doctest.h>

#include <limits>
#include <tuple>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;

std::vector<LevelGap> gaps_of(const Plan& plan) {
  Result<std::vector<LevelGap>> gaps = certified_gaps(plan);
  INFO(gaps.status().message());
  REQUIRE(gaps.is_ok());
  return std::move(gaps).value();
}

// Two levels: a broadcast over the thin link first, then what that leaves to the other.
HandMade two_levels() {
  HandMade made({"a", "b", "c"});
  made.add_link("a", "b", 4);
  made.add_link("b", "c", 10);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b", "c"}, 0, 1000);
  made.add_stream({{"a", "b"}, {"b", "c"}}, 4);
  made.add_collective(CollectiveOp::kBroadcast, 1000, 2.0);
  made.add_session(SessionKind::kMulticast, {"b", "c"}, 0, 1000);
  made.add_stream({{"b", "c"}}, 6);
  made.add_level(4, {0}, {{"a", "b", 1.0}}, {{0, {{"b", "c"}}}});
  made.add_level(3, {1}, {{"b", "c", 1.0}}, {{0, {{"c"}}}, {1, {{"c"}}}});
  made.finish().collectives[0].bound_bps = 4e6;
  made.plan().collectives[1].bound_bps = 6e6;
  return made;
}

// All that price allows: 5 of 10 Mbit/s.
HandMade priced(bool as_budget) {
  HandMade made({"a", "b"});
  made.add_link("a", "b", 10, 1.0);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b"}, 0, 1000);
  made.add_stream({{"a", "b"}}, 5);
  PlanLevel& level = made.add_level(as_budget ? 5 : 0, {0}, {}, {{0, {{"b"}}}});
  level.packings[0].cuts[0].length = kUsdPerHourPerBps;
  if (as_budget) {
    level.budget = 1.0;
    made.plan().budget_usd_per_hour = 2.25;
  } else {
    made.plan().certificate.cost_bound_usd_per_hour = 2.25;
  }
  made.finish().collectives[0].bound_bps = as_budget ? 5e6 : kUnlimited;
  return made;
}

TEST_CASE("levels: hand-made plans are sound and their gaps are as computed by hand") {
  CHECK(all_violations(triangle().plan()) == "");
  const LevelGap even = gaps_of(triangle().plan()).at(0);
  CHECK(even.bound_bps == doctest::Approx(20e6));
  CHECK(even.lp_gap == doctest::Approx(0));
  CHECK(even.rate_gap == doctest::Approx(0));

  CHECK(all_violations(coded_butterfly().plan()) == "");
  const LevelGap coded = gaps_of(coded_butterfly().plan()).at(0);
  CHECK(coded.lp_level_bps == doctest::Approx(2e6));
  CHECK(coded.rate_level_bps == doctest::Approx(1.5e6));
  CHECK(coded.lp_gap == doctest::Approx(0));
  CHECK(coded.rate_gap == doctest::Approx(1.0 / 3));

  CHECK(all_violations(reduce_over_a_relay().plan()) == "");
  CHECK(gaps_of(reduce_over_a_relay().plan()).at(0).bound_bps == doctest::Approx(5e6));

  CHECK(all_violations(planned_all_reduce().plan()) == "");
  CHECK(gaps_of(planned_all_reduce().plan()).at(0).bound_bps == doctest::Approx(15e6));
}

TEST_CASE("levels: later ones count what earlier ones have, and weights") {
  Plan plan = two_levels().plan();
  CHECK(all_violations(plan) == "");
  const std::vector<LevelGap> gaps = gaps_of(plan);
  REQUIRE(gaps.size() == 2);
  CHECK(gaps[1].level == 1);
  CHECK(gaps[1].bound_bps == doctest::Approx(3e6));
  CHECK(gaps[1].rate_level_bps == doctest::Approx(3e6));
  CHECK(gaps[1].rate_gap == doctest::Approx(0));
  // Where the first has less by its streams than by its program, more is left by rates.
  plan.collectives[0].rate_bps = 2e6;
  CHECK(gaps_of(plan)[1].lp_gap == doctest::Approx(0));
  CHECK(gaps_of(plan)[1].rate_gap == doctest::Approx(1.0 / 3));
}

TEST_CASE("levels: claims play no part in the gaps") {
  Plan plan = triangle().plan();
  plan.certificate.levels[0].bound_bps = 1.0;
  plan.collectives[0].bound_bps = 1.0;
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(20e6));
}

TEST_CASE("levels: cuts that are longer than the duals allow lengthen the link") {
  Plan plan = triangle().plan();
  plan.certificate.levels[0].links.clear();
  CHECK(all_violations(plan) == "");
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(20e6));
  plan.certificate.levels[0].packings[0].cuts[0].length = 3.0;
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(20e6));
  // Two cuts over a link add up.
  plan.certificate.levels[0].packings[0].cuts.push_back({{NodeId(1)}, 3.0});
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx((10e6 * 6 + 10e6 * 3 + 10e6 * 3) / 6));
}

TEST_CASE("levels: node limits and unlimited links count as in planning") {
  Plan plan = triangle().plan();
  plan.nodes[0].egress_bps = 20e6;
  plan.certificate.levels[0].links.clear();
  plan.certificate.levels[0].egress = {{NodeId(0), 1.0}};
  CHECK(all_violations(plan) == "");
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(20e6));
  plan.nodes[0].egress_bps = kUnlimited;
  CHECK(gaps_of(plan)[0].bound_bps == kUnlimited);
  CHECK(gaps_of(plan)[0].lp_gap == kUnlimited);
  CHECK(all_violations(plan).find("its duals prove unlimited") != std::string::npos);

  Plan open = triangle().plan();
  open.links[0].capacity_bps = kUnlimited;  // counts as the lowest finite one
  CHECK(all_violations(open) == "");
}

TEST_CASE("levels: sessions with the same bytes count once on a link") {
  // One broadcast as two unicasts over one link: a tree would carry twice as much.
  HandMade made({"a", "r", "b", "c"});
  made.add_link("a", "r", 4);
  made.add_link("r", "b", 4);
  made.add_link("r", "c", 4);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kUnicast, {"a", "b"}, 0, 1000);
  made.add_stream({{"a", "r"}, {"r", "b"}}, 2);
  made.add_session(SessionKind::kUnicast, {"a", "c"}, 0, 1000);
  made.add_stream({{"a", "r"}, {"r", "c"}}, 2);
  made.add_level(2, {0}, {{"a", "r", 1.0}}, {{0, {{"r", "b", "c"}}}, {1, {{"r", "b", "c"}}}});
  const Plan& plan = made.finish();
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(4e6));
  CHECK(all_violations(plan).find("its duals prove 4 Mbit/s") != std::string::npos);
}

TEST_CASE("levels: a root that has no share may have one in another plan") {
  Plan plan = planned_all_reduce().plan();
  std::erase_if(plan.collectives[0].sessions, [](SessionId id) { return id.value() >= 4; });
  plan.sessions.resize(4);
  std::erase_if(plan.certificate.levels[0].packings,
                [](const PlanPacking& packing) { return packing.session.value() >= 4; });
  CHECK(gaps_of(plan)[0].bound_bps == kUnlimited);
}

TEST_CASE("levels: the cheapest share bounds a planned all-reduce") {
  Plan plan = planned_all_reduce().plan();
  for (PlanPacking::Cut& cut : plan.certificate.levels[0].packings[3].cuts) cut.length = 0.5;
  CHECK(gaps_of(plan)[0].bound_bps == doctest::Approx(60e6 / 3));
}

TEST_CASE("levels: the cost and its bound") {
  const Plan plan = priced(false).plan();
  CHECK(plan.cost_usd_per_hour == doctest::Approx(2.25));
  CHECK(all_violations(plan) == "");
  CHECK(gaps_of(plan).empty());  // it bounds no rate
  check_tampered(
      plan, [](Plan& p) { p.certificate.cost_bound_usd_per_hour = 2.3; },
      "the bound on the cost is given as");
  check_tampered(
      plan, [](Plan& p) { p.certificate.levels[0].packings[0].cuts[0].length *= 0.9; }, "its duals prove");
  check_tampered(
      plan, [](Plan& p) { p.certificate.levels.clear(); }, "the bound on the cost is given as");
  check_tampered(
      plan, [](Plan& p) { p.cost_usd_per_hour = 1.0; }, "costs 1 USD an hour, less than its bound 2.25");
  // Longer cuts than the price lengthen the link, which takes more than it gives.
  Plan longer = plan;
  longer.certificate.levels[0].packings[0].cuts[0].length *= 2;
  CHECK(all_violations(longer).find("the bound on the cost") != std::string::npos);
}

TEST_CASE("levels: a budget") {
  const Plan plan = priced(true).plan();
  CHECK(all_violations(plan) == "");
  CHECK(gaps_of(plan).at(0).bound_bps == doctest::Approx(5e6));
  check_tampered(
      plan, [](Plan& p) { p.budget_usd_per_hour = 2.0; }, "its budget is 2");
  check_tampered(
      plan, [](Plan& p) { p.budget_usd_per_hour.reset(); }, "its duals prove unlimited");
  check_tampered(
      plan, [](Plan& p) { p.cost_usd_per_hour = 2.0; }, "the cost is given as 2");
  check_tampered(
      plan, [](Plan& p) { p.collectives[0].cost_usd_per_hour = 2.0; }, "its cost is given as 2");
}

TEST_CASE("levels, tampering: bounds") {
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].bound_bps = 21e6; },
      "its duals prove 20 Mbit/s");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].bound_bps = 19e6; },
      "its duals prove 20 Mbit/s");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.collectives[0].bound_bps = 21e6; }, "its level proves 20 Mbit/s");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.collectives[0].bound_bps = 19e6; }, "its rate, 20 Mbit/s, is over");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels.clear(); }, "its cuts prove unlimited");
  check_tampered(
      coded_butterfly().plan(), [](Plan& p) { p.certificate.levels[0].links.emplace_back(LinkId(2), 1.0); },
      "its duals prove 3 Mbit/s");
  check_tampered(
      two_levels().plan(), [](Plan& p) { p.collectives[1].bound_bps = 6.1e6; }, "its level proves 6 Mbit/s");
  check_tampered(
      triangle().plan(),
      [](Plan& p) {
        for (PlanLink& link : p.links) link.capacity_bps = 5e6;
        p.certificate.levels[0].bound_bps = 10e6;
      },
      "have at least 20 Mbit/s per unit of weight, over its bound 10 Mbit/s");
}

TEST_CASE("levels, tampering: cuts and packings") {
  check_tampered(
      triangle().plan(),
      [](Plan& p) {
        p.certificate.levels[0].packings[0].cuts[0].far_side = {NodeId(0), NodeId(1)};
      },
      "a cut of session 0 has its root on the far side");
  check_tampered(
      coded_butterfly().plan(),
      [](Plan& p) { p.certificate.levels[0].packings[0].cuts[0].far_side = {NodeId(4)}; },
      "a cut of session 0 has none of its members on the far side");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].packings[0].cuts[0].length = -1; },
      "level 0: the length -1 is not finite");
  check_tampered(
      triangle().plan(),
      [](Plan& p) { p.certificate.levels[0].links[0].second = std::numeric_limits<double>::quiet_NaN(); },
      "level 0: the length nan is not finite");
  check_tampered(
      triangle().plan(),
      [](Plan& p) {
        p.certificate.levels[0].packings.push_back({SessionId(0), {}});
      },
      "packs cuts for session 0 twice");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].packings.clear(); },
      "its duals prove unlimited");
}

TEST_CASE("levels, tampering: references") {
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].collectives[0] = CollectiveId(9); },
      "level 0 names collective 9");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].links[0].first = LinkId(99); },
      "level 0 names link 99");
  check_tampered(
      triangle().plan(),
      [](Plan& p) {
        p.certificate.levels[0].egress = {{NodeId(77), 1.0}};
      },
      "level 0 names node 77");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].packings[0].session = SessionId(8); },
      "level 0 packs cuts for session 8");
  check_tampered(
      triangle().plan(), [](Plan& p) { p.certificate.levels[0].packings[0].cuts[0].far_side = {NodeId(66)}; },
      "level 0 names node 66");
  check_tampered(
      two_levels().plan(), [](Plan& p) { p.certificate.levels[1].collectives = {CollectiveId(0)}; },
      "level 1: collective 0 is in a level already");
  check_tampered(
      two_levels().plan(), [](Plan& p) { p.certificate.levels[1].collectives.clear(); },
      "level 1 has no collectives");
  Plan plan = triangle().plan();
  plan.certificate.levels[0].links[0].first = LinkId(99);
  const Result<std::vector<LevelGap>> gaps = certified_gaps(plan);
  REQUIRE_FALSE(gaps.is_ok());
  CHECK(gaps.status().code() == StatusCode::kInvalidArgument);
  CHECK(gaps.status().message().find("link 99") != std::string::npos);
}

TEST_CASE("a certificate that refers to nothing does not hide what else is wrong") {
  Plan plan = triangle().plan();
  plan.certificate.levels[0].links[0].first = LinkId(99);
  plan.links[0].load_bps = 1;
  plan.collectives[0].completion_seconds = 1;
  const std::string all = all_violations(plan);
  CHECK(all.find("link 99") != std::string::npos);
  CHECK(all.find("its load is given as 1e-06 Mbit/s") != std::string::npos);
  CHECK(all.find("its completion is given") != std::string::npos);
}

TEST_CASE("a plan without streams: references, ranges and certificate") {
  Plan plan = planned_all_reduce().plan();
  plan.realised = false;
  for (PlanSession& session : plan.sessions) {
    session.streams.clear();
    session.rate_bps = 0;
  }
  for (PlanLink& link : plan.links) link.load_bps = 0;
  plan.collectives[0].rate_bps = 0;
  plan.collectives[0].completion_seconds = kUnlimited;
  plan.tenants[0].rate_bps = plan.min_rate_bps = plan.total_rate_bps = 0;
  CHECK(all_violations(plan) == "");
  const LevelGap gap = gaps_of(plan).at(0);
  CHECK(gap.lp_gap == doctest::Approx(0));
  CHECK(gap.rate_gap == kUnlimited);
  check_tampered(
      plan, [](Plan& p) { p.realised = true; }, "and there are no paths");
  check_tampered(
      plan,
      [](Plan& p) {
        p.sessions[0].streams.push_back({{{NodeId(1), NodeId(0)}, {NodeId(2), NodeId(0)}}, 5e6});
      },
      "has streams in a plan that has none");
  check_tampered(
      plan, [](Plan& p) { p.collectives[0].rate_bps = 15e6; }, "its sessions allow 0 Mbit/s");
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].size_bytes -= 1; }, "byte ranges incomplete");
  check_tampered(
      plan, [](Plan& p) { p.certificate.levels[0].bound_bps *= 0.9; }, "its duals prove 15 Mbit/s");
  check_tampered(
      plan, [](Plan& p) { p.collectives[0].bound_bps = 14e6; }, "its level proves 15 Mbit/s");
}

}  // namespace
}  // namespace square
