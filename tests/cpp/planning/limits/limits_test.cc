// What holds a collective back, of plans whose figures can be worked out by hand.
#include "square/limits.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;
using Kind = LimitedResource::Kind;

Limits limits_at(const Plan& plan, std::uint32_t session, std::size_t max_cuts = kDefaultLimitingCuts) {
  Result<Limits> limits = limits_of(plan, SessionId(session), max_cuts);
  INFO(limits.status().message());
  REQUIRE(limits.is_ok());
  return std::move(limits).value();
}

// "link a b", "egress a".
std::string name_of(const Plan& plan, const LimitedResource& resource) {
  const std::string kind(to_string(resource.kind));
  if (resource.kind != Kind::kLink) return kind + " " + plan.nodes[resource.node.index()].name;
  const PlanLink& link = plan.links[resource.link.index()];
  return kind + " " + plan.nodes[link.from.index()].name + " " + plan.nodes[link.to.index()].name;
}

Names names_of(const Plan& plan, const std::vector<LimitedResource>& resources) {
  Names names;
  for (const LimitedResource& resource : resources) names.push_back(name_of(plan, resource));
  return names;
}

// In Mbit/s, by session.
std::map<std::uint32_t, double> loads_of(const LimitedResource& resource) {
  std::map<std::uint32_t, double> loads;
  for (const LimitedResource::Load& load : resource.loads) {
    loads[load.session.value()] = bps_to_mbps(load.rate_bps);
  }
  return loads;
}

doctest::Approx mbps(double rate) { return doctest::Approx(mbps_to_bps(rate)); }

// Broadcasts 0 (a to b, c) and 1 (b to c) share the 40 into c; 2 (a to b) has what is left of 100.
HandMade shared_cut() {
  HandMade made({"a", "b", "c"});
  made.add_link("a", "b", 100);
  made.add_link("b", "a", 50);
  made.add_link("a", "c", 30);
  made.add_link("b", "c", 10);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b", "c"}, 0, 1000);
  made.add_stream({{"a", "b"}, {"a", "c"}}, 20);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"b", "c"}, 0, 1000);
  made.add_stream({{"b", "c"}}, 10);
  made.add_stream({{"b", "a"}, {"a", "c"}}, 10);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b"}, 0, 1000);
  made.add_stream({{"a", "b"}}, 80);
  PlanLevel& low =
      made.add_level(20, {0, 1}, {{"a", "c", 0.5}, {"b", "c", 0.5}}, {{0, {{"c"}}}, {1, {{"c"}}}});
  for (PlanPacking& packing : low.packings) packing.cuts[0].length = 0.5;
  made.add_level(80, {2}, {{"a", "b", 1.0}}, {{0, {{"b"}}}, {2, {{"b"}}}});
  Plan& plan = made.finish();
  plan.collectives[0].bound_bps = plan.collectives[1].bound_bps = 20e6;
  plan.collectives[2].bound_bps = 80e6;
  return made;
}

TEST_CASE("limits: a cut that two collectives share") {
  HandMade made = shared_cut();
  const Plan& plan = made.plan();
  CHECK(all_violations(plan) == "");
  const Limits limits = limits_at(plan, 1);
  CHECK(limits.collective == CollectiveId(1));
  CHECK(limits.session == SessionId(1));
  CHECK(limits.reason == LimitReason::kLevel);
  CHECK(limits.level == 0);
  CHECK(limits.rate_bps == mbps(20));
  CHECK(limits.bound_bps == mbps(20));
  CHECK(names_of(plan, limits.held_by) == Names{"link a c", "link b c"});
  CHECK(limits.keeps_pace_with.empty());
  REQUIRE(limits.cuts.size() == 1);
  const LimitingCut& cut = limits.cuts[0];
  CHECK(cut.into == made.nodes({"c"}));
  CHECK(cut.is_proof);
  CHECK(cut.length == doctest::Approx(0.5));
  CHECK(cut.sessions == std::vector<SessionId>{SessionId(1)});
  CHECK(names_of(plan, cut.links) == Names{"link a c", "link b c"});
  CHECK(loads_of(cut.links[0]) == std::map<std::uint32_t, double>{{0, 20.0}, {1, 10.0}});
  CHECK(loads_of(cut.links[1]) == std::map<std::uint32_t, double>{{1, 10.0}});
  CHECK(cut.links[0].load_bps == mbps(30));
  CHECK(cut.carried_bps == mbps(40));
  REQUIRE(cut.demands.size() == 2);
  CHECK(cut.demands[0].needs_bps == mbps(20));
  CHECK(cut.demands[1].needs_bps == mbps(20));
  CHECK(cut.bound_bps == mbps(20));
}

TEST_CASE("limits: a bottleneck link, of which a lower level has its part") {
  HandMade made = shared_cut();
  const Plan& plan = made.plan();
  const Limits limits = limits_at(plan, 2);
  CHECK(limits.level == 1);
  CHECK(names_of(plan, limits.held_by) == Names{"link a b"});
  CHECK(limits.held_by[0].load_bps == mbps(100));
  CHECK(limits.held_by[0].capacity_bps == mbps(100));
  REQUIRE(limits.proof != nullptr);
  CHECK(limits.proof->worth == mbps(100));
  CHECK(limits.proof->earlier == mbps(20));
  CHECK(limits.proof->active == doctest::Approx(1.0));
  CHECK(limits.proof->bound_bps == mbps(80));
  REQUIRE(limits.proof->parts.size() == 2);
  CHECK(limits.proof->parts[0].is_earlier);
  CHECK(!limits.proof->parts[1].is_earlier);
}

TEST_CASE("limits: without streams nobody loads a link, and rates are those of the program") {
  HandMade made = shared_cut();
  Plan& plan = made.plan();
  plan.realised = false;
  for (PlanSession& session : plan.sessions) session.streams.clear();
  for (PlanCollective& collective : plan.collectives) collective.rate_bps = 0;
  const Limits limits = limits_at(plan, 1);
  CHECK(limits.rate_bps == mbps(20));
  CHECK(limits.bound_bps == mbps(20));
  CHECK(limits.cuts[0].links[0].loads.empty());
  CHECK(limits.cuts[0].links[0].load_bps == 0.0);
}

// a sends three copies of 10 and may send 30.
HandMade three_copies() {
  HandMade made({"a", "b", "c", "d"});
  for (const char* const to : {"b", "c", "d"}) made.add_link("a", to, 100);
  made.plan().nodes[0].egress_bps = 30e6;
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b", "c", "d"}, 0, 1000);
  made.add_stream({{"a", "b"}, {"a", "c"}, {"a", "d"}}, 10);
  PlanLevel& level = made.add_level(10, {0}, {}, {{0, {{"b"}, {"c"}, {"d"}}}});
  for (PlanPacking::Cut& cut : level.packings[0].cuts) cut.length = 1.0 / 3;
  level.egress = {{made.node("a"), 1.0 / 3}};
  made.finish().collectives[0].bound_bps = 10e6;
  return made;
}

TEST_CASE("limits: the limit of a node, which no cut shows alone") {
  HandMade made = three_copies();
  const Plan& plan = made.plan();
  CHECK(all_violations(plan) == "");
  const Limits limits = limits_at(plan, 0);
  CHECK(limits.reason == LimitReason::kLevel);
  CHECK(names_of(plan, limits.held_by) == Names{"egress a"});
  CHECK(limits.held_by[0].capacity_bps == mbps(30));
  CHECK(limits.held_by[0].load_bps == mbps(30));
  CHECK(limits.held_by[0].length == doctest::Approx(1.0 / 3));
  REQUIRE(limits.cuts.size() == 3);
  for (const LimitingCut& cut : limits.cuts) {
    CHECK(!cut.is_proof);
    CHECK(names_of(plan, cut.node_limits) == Names{"egress a"});
  }
  CHECK(limits.cuts[0].into == made.nodes({"b"}));
  CHECK(limits.cuts[2].into == made.nodes({"d"}));
  REQUIRE(limits.proof != nullptr);
  CHECK(names_of(plan, limits.proof->resources) == Names{"egress a"});
  CHECK(limits.proof->bound_bps == mbps(10));
}

TEST_CASE("limits: no more cuts than are asked for, and the figures of all") {
  HandMade made = three_copies();
  for (const std::size_t most : {0U, 1U, 2U}) {
    const Limits limits = limits_at(made.plan(), 0, most);
    CHECK(limits.cuts.size() == most);
    CHECK(limits.cut_count == 3);
    CHECK(limits.length == doctest::Approx(1.0));
    CHECK(limits.held_by.size() == 1);
  }
}

TEST_CASE("limits: data of a reduce leaves the set that the certificate names") {
  HandMade made = reduce_over_a_relay();
  const Limits limits = limits_at(made.plan(), 0);
  REQUIRE(limits.cuts.size() == 1);
  CHECK(limits.cuts[0].is_left);
  CHECK(limits.cuts[0].into == made.nodes({"r"}));
  CHECK(names_of(made.plan(), limits.held_by) == Names{"link u r"});
  CHECK(limits.bound_bps == mbps(5));
}

// Whichever root a share has, it crosses a -> b once.
HandMade sum_of_two() {
  HandMade made({"a", "b"});
  made.add_link("a", "b", 10);
  made.add_link("b", "a", 10);
  made.add_collective(CollectiveOp::kAllReduce, 1000);
  std::uint32_t number = 0;
  for (const std::string root : {"a", "b"}) {
    const std::string other = root == "a" ? "b" : "a";
    const std::uint64_t offset = root == "a" ? 0 : 500;
    made.add_session(SessionKind::kReduce, {root, other}, offset, 500).pair = SessionId(number + 1);
    made.add_stream({{other, root}}, 5);
    made.add_session(SessionKind::kMulticast, {root, other}, offset, 500).pair = SessionId(number);
    made.add_stream({{root, other}}, 5);
    number += 2;
  }
  made.add_level(10, {0}, {{"a", "b", 1.0}}, {{1, {{"b"}}}, {2, {{"a"}}}});
  made.finish().collectives[0].bound_bps = 10e6;
  return made;
}

TEST_CASE("limits: a session without cuts of its own keeps pace with others") {
  HandMade made = sum_of_two();
  CHECK(all_violations(made.plan()) == "");
  const Limits limits = limits_at(made.plan(), 0);
  CHECK(limits.keeps_pace_with == std::vector<SessionId>{SessionId(1), SessionId(2)});
  REQUIRE(limits.cuts.size() == 1);  // both sessions name the same one
  CHECK(limits.cuts[0].into == made.nodes({"b"}));
  CHECK(limits.cuts[0].length == doctest::Approx(2.0));
  REQUIRE(limits.cuts[0].demands.size() == 1);
  CHECK(limits.cuts[0].demands[0].crossings == doctest::Approx(1.0));
  CHECK(limits.cuts[0].bound_bps == mbps(10));
  CHECK(limits_at(made.plan(), 1).keeps_pace_with.empty());
}

// One link that would carry more than is paid for.
HandMade paid(bool as_budget) {
  HandMade made({"a", "b"});
  made.add_link("a", "b", 40, 1.0);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b"}, 0, 1000);
  made.add_stream({{"a", "b"}}, 10);
  PlanLevel& level = made.add_level(as_budget ? 10 : 0, {0}, {}, {{0, {{"b"}}}});
  const double usd = 10e6 * kUsdPerHourPerBps;
  if (as_budget) {
    level.budget = 1.0 / kUsdPerHourPerBps;
    made.plan().budget_usd_per_hour = usd;
  } else {
    level.packings[0].cuts[0].length = kUsdPerHourPerBps;
    made.plan().certificate.cost_bound_usd_per_hour = usd;
  }
  made.finish().collectives[0].bound_bps = as_budget ? 10e6 : kUnlimited;
  return made;
}

TEST_CASE("limits: a budget") {
  HandMade made = paid(true);
  CHECK(all_violations(made.plan()) == "");
  const Limits limits = limits_at(made.plan(), 0);
  CHECK(limits.reason == LimitReason::kLevel);
  CHECK(limits.is_held_by_budget);
  CHECK(limits.held_by.empty());
  CHECK(limits.bound_bps == mbps(10));
  CHECK(!limits.cuts[0].is_proof);
}

TEST_CASE("limits: least cost limits no rate") {
  HandMade made = paid(false);
  CHECK(all_violations(made.plan()) == "");
  const Limits limits = limits_at(made.plan(), 0);
  CHECK(limits.reason == LimitReason::kRequired);
  CHECK(limits.proof == nullptr);
  CHECK(limits.level == 0);
  REQUIRE(limits.cuts.size() == 1);
  CHECK(limits.cuts[0].length == doctest::Approx(kUsdPerHourPerBps));
  CHECK(!limits.cuts[0].is_proof);
}

// Policy without levels: 40 lead into c.
HandMade cut_only(double rate, double bound) {
  HandMade made({"a", "b", "c"});
  made.add_link("a", "c", 30);
  made.add_link("b", "c", 10);
  made.add_link("c", "a", 5);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "c"}, 0, 1000);
  made.add_stream({{"a", "c"}}, rate);
  made.plan().policy = "square";
  made.plan().certificate.cuts = {{CollectiveId(0), made.nodes({"a", "b"}), mbps_to_bps(bound)}};
  made.finish().collectives[0].bound_bps = mbps_to_bps(bound);
  return made;
}

TEST_CASE("limits: a cut carries what the limits of its nodes leave") {
  struct Case {
    double egress_of_a, ingress_of_c, carried;
    Names held;
  };
  for (const Case& at : std::initializer_list<Case>{{kUnlimited, kUnlimited, 40, {}},
                                                    {kUnlimited, 25e6, 25, {"ingress c"}},
                                                    {12e6, kUnlimited, 22, {"egress a"}},
                                                    {12e6, 25e6, 22, {"egress a"}},
                                                    {29e6, 25e6, 25, {"ingress c"}},
                                                    {50e6, 60e6, 40, {}}}) {
    HandMade made = cut_only(10, at.carried);
    Plan& plan = made.plan();
    plan.nodes[0].egress_bps = at.egress_of_a;
    plan.nodes[2].ingress_bps = at.ingress_of_c;
    CHECK(all_violations(plan) == "");
    const Limits limits = limits_at(plan, 0);
    CHECK(limits.reason == LimitReason::kPolicy);
    CHECK(limits.level == std::nullopt);
    REQUIRE(limits.cuts.size() == 1);
    CHECK(limits.cuts[0].carried_bps == mbps(at.carried));
    CHECK(names_of(plan, limits.cuts[0].node_limits) == at.held);
    CHECK(limits.cuts[0].is_proof);
    CHECK(limits.held_by.size() == 2 + at.held.size());
  }
}

TEST_CASE("limits: a cut that is full, and a plan that proves nothing") {
  HandMade full = cut_only(25, 25);
  full.plan().nodes[2].ingress_bps = 25e6;
  CHECK(limits_at(full.plan(), 0).reason == LimitReason::kCut);
  HandMade open = cut_only(10, 40);
  open.plan().certificate.cuts.clear();
  const Limits limits = limits_at(open.plan(), 0);
  CHECK(limits.reason == LimitReason::kUnproven);
  CHECK(limits.cuts.empty());
  CHECK(limits.held_by.empty());
}

TEST_CASE("limits: an unlimited link counts as the narrowest that is limited") {
  HandMade made = cut_only(10, 60);
  made.plan().links[1].capacity_bps = kUnlimited;
  const Limits limits = limits_at(made.plan(), 0);
  CHECK(limits.cuts[0].carried_bps == mbps(35));
}

TEST_CASE("limits: of all collectives, the levels' proofs shared") {
  HandMade made = shared_cut();
  PlanCollective& alone = made.add_collective(CollectiveOp::kBroadcast, 1000);
  alone.rate_bps = alone.lp_rate_bps = kUnlimited;
  const Result<std::vector<Limits>> all = limits_of_collectives(made.plan(), 1);
  REQUIRE(all.is_ok());
  REQUIRE(all->size() == 4);
  CHECK(all->at(0).proof == all->at(1).proof);
  CHECK(all->at(0).proof != all->at(2).proof);
  CHECK(all->at(2).reason == LimitReason::kLevel);
  CHECK(all->at(3).reason == LimitReason::kIdle);
  CHECK(all->at(3).cuts.empty());
  const Result<Limits> one = limits_of(made.plan(), CollectiveId(2), 1);
  REQUIRE(one.is_ok());
  CHECK(one->session == std::nullopt);
  CHECK(one->bound_bps == all->at(2).bound_bps);
}

TEST_CASE("limits: what is not in the plan is refused") {
  HandMade made = shared_cut();
  CHECK(limits_of(made.plan(), SessionId(3)).status().code() == StatusCode::kNotFound);
  CHECK(limits_of(made.plan(), CollectiveId(7)).status().code() == StatusCode::kNotFound);
  const auto refused = [](Plan plan, const auto& tamper) {
    tamper(plan);
    CHECK(limits_of_collectives(plan).status().code() == StatusCode::kInvalidArgument);
    CHECK(limits_of(plan, SessionId(0)).status().code() == StatusCode::kInvalidArgument);
  };
  refused(made.plan(), [](Plan& plan) { plan.certificate.levels[0].links[0].first = LinkId(99); });
  refused(made.plan(), [](Plan& plan) { plan.certificate.levels[0].packings[0].session = SessionId(9); });
  refused(made.plan(), [](Plan& plan) { plan.sessions[0].root = NodeId(42); });
  refused(made.plan(), [](Plan& plan) { plan.collectives[1].sessions.emplace_back(77); });
}

}  // namespace
}  // namespace square
