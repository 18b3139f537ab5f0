// What the plan's JSON says of programs, prices and certificates; and plans of before.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;
using Json = nlohmann::json;

// Every field that a plan can have, with values that no default has.
Plan everything() {
  HandMade made = planned_all_reduce();
  Plan& plan = made.plan();
  plan.nodes[1].egress_bps = 40e6;
  for (PlanLink& link : plan.links) link.price_usd_per_gb = 0.125;
  plan.cost_usd_per_hour = plan.collectives[0].cost_usd_per_hour = 12 * 5e6 * 0.125 * kUsdPerHourPerBps;
  plan.budget_usd_per_hour = 99.5;
  PlanLevel& level = plan.certificate.levels[0];
  level.egress = {{NodeId(1), 0.5}};
  level.ingress = {{NodeId(2), 0.25}};
  level.budget = 0.75;
  level.packings[1].cuts[0].length = 0.375;
  plan.certificate.levels.emplace_back().bound_bps = kUnlimited;
  plan.certificate.cost_bound_usd_per_hour = 1.5;
  plan.headroom = PlanHeadroom{2.0, 16e6, 17e6};
  plan.changes = {{CollectiveId(0), PlanChange::Kind::kFaster, 14e6, 15e6},
                  {CollectiveId(4), PlanChange::Kind::kLeft, 3e6, 0},
                  {CollectiveId(5), PlanChange::Kind::kJoined, 0, kUnlimited},
                  {CollectiveId(6), PlanChange::Kind::kSlower, 2e6, 1e6},
                  {CollectiveId(7), PlanChange::Kind::kRerouted, 2e6, 2e6}};
  plan.collectives[0].lp_rate_bps = 15.5e6;
  plan.nodes[2].relays = false;
  plan.links[3].avoided = true;
  plan.sessions[1].max_latency = {Duration::max(), std::chrono::microseconds(1500), Duration(0)};
  return plan;
}

void check_same(const PlanLevel& a, const PlanLevel& b) {
  CHECK(a.bound_bps == doctest::Approx(b.bound_bps));
  CHECK((a.collectives == b.collectives && a.links == b.links));
  CHECK((a.egress == b.egress && a.ingress == b.ingress && a.budget == b.budget));
  REQUIRE(a.packings.size() == b.packings.size());
  for (std::size_t p = 0; p < a.packings.size(); ++p) {
    CHECK(a.packings[p].session == b.packings[p].session);
    REQUIRE(a.packings[p].cuts.size() == b.packings[p].cuts.size());
    for (std::size_t c = 0; c < a.packings[p].cuts.size(); ++c) {
      CHECK(a.packings[p].cuts[c].far_side == b.packings[p].cuts[c].far_side);
      CHECK(a.packings[p].cuts[c].length == b.packings[p].cuts[c].length);
    }
  }
}

TEST_CASE("programs, prices, levels, headroom and changes survive JSON") {
  const Plan plan = everything();
  const Result<Plan> read = plan_from_json(to_json(plan));
  INFO(read.status().message());
  REQUIRE(read.is_ok());
  CHECK(read->cost_usd_per_hour == plan.cost_usd_per_hour);
  CHECK(read->budget_usd_per_hour == plan.budget_usd_per_hour);
  CHECK(read->realised);
  CHECK(read->collectives[0].lp_rate_bps == doctest::Approx(15.5e6));
  CHECK(read->collectives[0].cost_usd_per_hour == plan.collectives[0].cost_usd_per_hour);
  CHECK(read->links[5].price_usd_per_gb == 0.125);
  CHECK(read->sessions[3].pair == SessionId(2));
  CHECK((read->nodes[1].relays && !read->nodes[2].relays));
  CHECK((!read->links[2].avoided && read->links[3].avoided));
  CHECK(read->sessions[1].max_latency == plan.sessions[1].max_latency);
  CHECK(read->sessions[2].max_latency.empty());
  CHECK(read->certificate.cost_bound_usd_per_hour == 1.5);
  REQUIRE(read->certificate.levels.size() == 2);
  check_same(read->certificate.levels[0], plan.certificate.levels[0]);
  CHECK(read->certificate.levels[1].bound_bps == kUnlimited);
  REQUIRE(read->headroom.has_value());
  CHECK(read->headroom->deviations == 2.0);
  CHECK(read->headroom->nominal_min_rate_bps == doctest::Approx(16e6));
  CHECK(read->headroom->nominal_total_rate_bps == doctest::Approx(17e6));
  REQUIRE(read->changes.has_value());
  REQUIRE(read->changes->size() == plan.changes->size());
  for (std::size_t i = 0; i < plan.changes->size(); ++i) {
    CHECK((*read->changes)[i].collective == (*plan.changes)[i].collective);
    CHECK((*read->changes)[i].kind == (*plan.changes)[i].kind);
    CHECK((*read->changes)[i].rate_before_bps == doctest::Approx((*plan.changes)[i].rate_before_bps));
  }
  CHECK((*read->changes)[2].rate_after_bps == kUnlimited);
  CHECK(to_json(*read) == to_json(plan));
}

TEST_CASE("a plan without streams, and one that changed nothing, survive JSON") {
  Plan plan = everything();
  plan.realised = false;
  plan.changes.emplace();
  plan.headroom.reset();
  plan.budget_usd_per_hour.reset();
  plan.certificate.cost_bound_usd_per_hour.reset();
  const Result<Plan> read = plan_from_json(to_json(plan));
  REQUIRE(read.is_ok());
  CHECK_FALSE(read->realised);
  REQUIRE(read->changes.has_value());
  CHECK(read->changes->empty());
  CHECK_FALSE(read->headroom.has_value());
  CHECK_FALSE(read->budget_usd_per_hour.has_value());
  CHECK_FALSE(read->certificate.cost_bound_usd_per_hour.has_value());
}

TEST_CASE("hand-made plans are as sound after JSON as before") {
  for (const Plan& plan : {triangle().plan(), coded_butterfly().plan(), reduce_over_a_relay().plan(),
                           planned_all_reduce().plan()}) {
    const Result<Plan> read = plan_from_json(to_json(plan));
    REQUIRE(read.is_ok());
    CHECK(all_violations(*read) == "");
  }
}

TEST_CASE("sessions with the same cuts share an entry") {
  HandMade made = planned_all_reduce();
  PlanLevel& level = made.plan().certificate.levels[0];
  level.packings[1].cuts = level.packings[0].cuts;
  const Json json = Json::parse(to_json(made.plan()));
  const Json& packings = json["certificate"]["levels"][0]["packings"];
  CHECK(packings[0]["sessions"] == Json({"0", "1"}));
  CHECK(packings[0]["cuts"][1]["far_side"] == Json::array({"c"}));
  CHECK(json["certificate"]["levels"][0]["links"][0] == Json::array({"a", "b", 1.0}));
}

TEST_CASE("a plan that the release before wrote is read, and sound") {
  // By hand, from docs/plan.md of release 0.1.0.
  const std::string before = R"({
    "format": "square.plan/1", "epoch": 1, "policy": "square", "solve_seconds": 0.0004,
    "min_rate_mbps": 9.0, "total_rate_mbps": 9.0, "jain": 1.0,
    "tenants": [{"name": "alice", "weight": 2.0, "rate_mbps": 9.0}],
    "certificate": {
      "level_bound_mbps": 5.0,
      "cuts": [{"collective": "0", "source_side": ["fra"], "bound_mbps": 10.0}]
    },
    "collectives": [{
      "id": "0", "tenant": "alice", "op": "broadcast", "weight": 2.0, "bytes": 11250000,
      "rate_mbps": 9.0, "bound_mbps": 10.0, "completion_seconds": 10.0, "sessions": ["0"]
    }],
    "sessions": [{
      "id": "0", "collective": "0", "kind": "multicast", "root": "fra", "members": ["fra", "sfo"],
      "offset_bytes": 0, "size_bytes": 11250000, "pair": null, "lp_rate_mbps": 10.0, "rate_mbps": 9.0,
      "paths": [{"member": "sfo", "nodes": ["fra", "sfo"], "rate_mbps": 10.0}],
      "streams": [{"links": [["fra", "sfo"]], "rate_mbps": 9.0, "coded": false}]
    }],
    "nodes": [{"name": "fra", "egress_mbps": null, "ingress_mbps": null},
              {"name": "sfo", "egress_mbps": null, "ingress_mbps": null}],
    "links": [{"from": "fra", "to": "sfo", "capacity_mbps": 10.0, "load_mbps": 9.0, "latency_ms": 75.0}]
  })";
  const Result<Plan> read = plan_from_json(before);
  INFO(read.status().message());
  REQUIRE(read.is_ok());
  CHECK(read->collectives[0].lp_rate_bps == read->collectives[0].rate_bps);
  CHECK(read->realised);
  CHECK(read->certificate.levels.empty());
  CHECK_FALSE(read->changes.has_value());
  CHECK(read->cost_usd_per_hour == 0);
  CHECK(all_violations(*read) == "");
}

void check_refused(const std::function<void(Json&)>& change, std::string_view expected) {
  Json json = Json::parse(to_json(everything()));
  change(json);
  const Result<Plan> read = plan_from_json(json.dump());
  REQUIRE_FALSE(read.is_ok());
  CHECK(read.status().code() == StatusCode::kInvalidArgument);
  INFO(read.status().message());
  CHECK(read.status().message().find(expected) != std::string::npos);
}
void check_level_refused(const std::function<void(Json&)>& change, std::string_view expected) {
  check_refused([&](Json& json) { change(json["certificate"]["levels"][0]); }, expected);
}

TEST_CASE("what is wrong in a level is named with its place") {
  check_level_refused(
      [](Json& level) { level["packings"][0]["cuts"][1]["far_side"][0] = "lon"; },
      "plan: certificate.levels[0].packings[0].cuts[1].far_side names \"lon\", which is not a node");
  check_level_refused([](Json& level) { level["packings"][0]["cuts"][0].erase("length"); },
                      "certificate.levels[0].packings[0].cuts[0].length is missing");
  check_level_refused([](Json& level) { level["packings"][2]["sessions"][0] = "9"; },
                      "certificate.levels[0].packings[2].sessions names 9, which is not a session");
  check_level_refused([](Json& level) { level["packings"][2]["sessions"][0] = 9; },
                      "packings[2].sessions has an entry that is not a string");
  check_level_refused([](Json& level) { level["collectives"][0] = "3"; },
                      "certificate.levels[0].collectives names 3, which is not a collective");
  check_level_refused(
      [](Json& level) {
        level["links"][0] = {"a", "b"};
      },
      "certificate.levels[0].links has an entry that is not two nodes and a length");
  check_level_refused([](Json& level) { level["links"][0][2] = nullptr; }, "not two nodes and a length");
  check_level_refused(
      [](Json& level) {
        level["links"][0] = {"a", "a", 1.0};
      },
      "links names \"a\" -> \"a\", which is not a link");
  check_level_refused([](Json& level) { level["egress"][0] = "b"; }, "not a node and a length");
  check_level_refused([](Json& level) { level["ingress"][0][0] = "x"; }, "levels[0].ingress names \"x\"");
  check_level_refused([](Json& level) { level["budget"] = "1"; }, "levels[0].budget is not a number");
  check_level_refused([](Json& level) { level.erase("bound_mbps"); }, "levels[0].bound_mbps is missing");
  check_refused([](Json& json) { json["certificate"]["levels"] = 1; }, "certificate.levels is not an array");
}

TEST_CASE("what is wrong in the other keys is named") {
  check_refused([](Json& json) { json["realised"] = 1; }, "realised is not true or false");
  check_refused([](Json& json) { json["cost_usd_per_hour"] = "1"; }, "cost_usd_per_hour is not a number");
  check_refused([](Json& json) { json["budget_usd_per_hour"] = "1"; }, "budget_usd_per_hour is not a number");
  check_refused([](Json& json) { json["headroom"].erase("deviations"); }, "headroom.deviations is missing");
  check_refused([](Json& json) { json["headroom"] = 2; }, "headroom is not an object");
  check_refused([](Json& json) { json["changes"][1]["kind"] = "gone"; },
                "changes[1].kind is \"gone\", not joined, left, faster, slower or rerouted");
  check_refused([](Json& json) { json["nodes"][2]["relays"] = 0; }, "nodes[2].relays is not true or false");
  check_refused([](Json& json) { json["links"][3]["avoided"] = "no"; },
                "links[3].avoided is not true or false");
  check_refused([](Json& json) { json["sessions"][1]["max_latency_ms"][0] = "1"; },
                "sessions[1].max_latency_ms has an entry that is neither a number nor null");
  check_refused([](Json& json) { json["sessions"][1]["max_latency_ms"][0] = -1; },
                "sessions[1].max_latency_ms is not in 0 to");
  check_refused([](Json& json) { json["changes"] = true; }, "changes is not an array");
  check_refused([](Json& json) { json["collectives"][0]["lp_rate_mbps"] = "x"; },
                "collectives[0].lp_rate_mbps is neither a number nor null");
  check_refused([](Json& json) { json["links"][0]["price_usd_per_gb"] = nullptr; },
                "links[0].price_usd_per_gb is not a number");
}

TEST_CASE("a small file cannot ask for a lot of memory") {
  // 200 sessions that share 400,000 nodes would be 80 million.
  HandMade made({"a", "b"});
  made.add_link("a", "b", 10);
  made.add_collective(CollectiveOp::kBroadcast, 1000);
  made.add_session(SessionKind::kMulticast, {"a", "b"}, 0, 1000);
  PlanLevel& level = made.add_level(10, {0}, {}, {{0, {{"b"}}}});
  level.packings[0].cuts[0].far_side.assign(400'000, NodeId(1));
  Json json = Json::parse(to_json(made.plan()));
  json["certificate"]["levels"][0]["packings"][0]["sessions"] = std::vector<std::string>(200, "0");
  const Result<Plan> read = plan_from_json(json.dump());
  REQUIRE_FALSE(read.is_ok());
  CHECK(read.status().message().find("packings[0].sessions brings the nodes of all cuts over") !=
        std::string::npos);
}

}  // namespace
}  // namespace square
