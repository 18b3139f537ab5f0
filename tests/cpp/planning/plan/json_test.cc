#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "planning/scenarios.h"
#include "square/plan.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;
using Json = nlohmann::json;

Plan sample() {
  Topology topology = named_nodes({"fra", "sfo", "syd"});
  REQUIRE(topology.add_link("fra", "sfo", LinkProperties{10 * kMbps, std::chrono::milliseconds(75)}).is_ok());
  REQUIRE(topology.add_link("sfo", "syd", LinkProperties{7.3 * kMbps, std::chrono::nanoseconds(1234567)})
              .is_ok());
  REQUIRE(topology.add_link("fra", "syd", LinkProperties{}).is_ok());
  REQUIRE(topology.set_limits(node(0), 11 * kMbps, kUnlimited).is_ok());
  Scenario scenario = scenario_on(std::move(topology));
  add_broadcast(scenario, 0);
  add_collective(scenario, CollectiveOp::kScatter, {node(0), node(2)}, 5);
  add_collective(scenario, CollectiveOp::kAllGather, {node(1)});
  Plan plan = planned(scenario).plan;
  plan.epoch = Epoch(7);
  return plan;
}

bool close(double a, double b) { return a == b || std::abs(a - b) <= 1e-12 * std::abs(a); }

TEST_CASE("a plan survives JSON") {
  const Plan plan = sample();
  const Result<Plan> read = plan_from_json(to_json(plan));
  REQUIRE(read.is_ok());
  CHECK(read->epoch == plan.epoch);
  CHECK(read->policy == plan.policy);
  CHECK(read->solve_seconds == plan.solve_seconds);
  CHECK(close(read->min_rate_bps, plan.min_rate_bps));
  CHECK(close(read->total_rate_bps, plan.total_rate_bps));
  CHECK(read->jain == plan.jain);
  REQUIRE(read->nodes.size() == 3);
  CHECK(read->nodes[0].name == "fra");
  CHECK(close(read->nodes[0].egress_bps, 11 * kMbps));
  CHECK(read->nodes[0].ingress_bps == kUnlimited);
  REQUIRE(read->links.size() == 3);
  for (std::size_t e = 0; e < 3; ++e) {
    CHECK(read->links[e].from == plan.links[e].from);
    CHECK(read->links[e].to == plan.links[e].to);
    CHECK(close(read->links[e].capacity_bps, plan.links[e].capacity_bps));
    CHECK(close(read->links[e].load_bps, plan.links[e].load_bps));
    CHECK(read->links[e].latency == plan.links[e].latency);
  }
  REQUIRE(read->collectives.size() == 3);
  for (std::size_t c = 0; c < 3; ++c) {
    const PlanCollective& a = plan.collectives[c];
    const PlanCollective& b = read->collectives[c];
    CHECK((a.id == b.id && a.tenant == b.tenant && a.op == b.op && a.weight == b.weight));
    CHECK((a.size_bytes == b.size_bytes && a.sessions == b.sessions));
    CHECK((close(a.rate_bps, b.rate_bps) && close(a.bound_bps, b.bound_bps)));
    CHECK(a.completion_seconds == b.completion_seconds);
  }
  REQUIRE(read->sessions.size() == plan.sessions.size());
  for (std::size_t i = 0; i < plan.sessions.size(); ++i) {
    const PlanSession& a = plan.sessions[i];
    const PlanSession& b = read->sessions[i];
    CHECK((a.id == b.id && a.collective == b.collective && a.kind == b.kind && a.root == b.root));
    CHECK((a.members == b.members && a.offset_bytes == b.offset_bytes && a.size_bytes == b.size_bytes));
    CHECK((a.pair == b.pair && close(a.lp_rate_bps, b.lp_rate_bps) && close(a.rate_bps, b.rate_bps)));
    REQUIRE(a.paths.size() == b.paths.size());
    for (std::size_t p = 0; p < a.paths.size(); ++p) {
      CHECK((a.paths[p].member == b.paths[p].member && a.paths[p].nodes == b.paths[p].nodes));
      CHECK(close(a.paths[p].rate_bps, b.paths[p].rate_bps));
    }
    REQUIRE(a.streams.size() == b.streams.size());
    for (std::size_t s = 0; s < a.streams.size(); ++s) {
      CHECK((a.streams[s].links == b.streams[s].links &&
             a.streams[s].coded.has_value() == b.streams[s].coded.has_value()));
      CHECK(close(a.streams[s].rate_bps, b.streams[s].rate_bps));
    }
  }
  REQUIRE(read->certificate.cuts.size() == plan.certificate.cuts.size());
  CHECK(close(*read->certificate.level_bound_bps, *plan.certificate.level_bound_bps));
  CHECK(read->certificate.cuts[0].source_side == plan.certificate.cuts[0].source_side);
  CHECK(find_violations(*read).empty());
}

TEST_CASE("the keys are those of the format, infinite is null, ids are strings") {
  Plan plan = sample();
  plan.sessions[0].pair = SessionId(1);
  const Json json = Json::parse(to_json(plan));
  CHECK(json["format"] == "square.plan/1");
  CHECK(json["epoch"] == 7);
  CHECK(json["collectives"][0]["id"] == "0");
  CHECK(json["collectives"][0]["op"] == "broadcast");
  CHECK(json["collectives"][0]["bytes"] == 12'500'000);
  CHECK(json["collectives"][2]["rate_mbps"].is_null());
  CHECK(json["collectives"][2]["completion_seconds"] == 0);
  CHECK(json["sessions"][0]["pair"] == "1");
  CHECK(json["sessions"][1]["pair"].is_null());
  CHECK(json["sessions"][0]["members"] == Json({"fra", "sfo", "syd"}));
  CHECK(json["links"][0]["latency_ms"] == 75.0);
  CHECK(json["links"][0]["capacity_mbps"] == 10.0);
  CHECK(json["links"][2]["capacity_mbps"].is_null());
  CHECK(json["nodes"][0]["ingress_mbps"].is_null());
  const Json& stream = json["sessions"][0]["streams"][0];
  CHECK(stream["links"][0].size() == 2);
  CHECK(stream["coded"] == false);
}

TEST_CASE("keys that are not known are passed over") {
  Json json = Json::parse(to_json(sample()));
  json["comment"] = {1, 2};
  json["sessions"][0]["colour"] = "blue";
  CHECK(plan_from_json(json.dump()).is_ok());
}

void check_json_refused(const std::function<void(Json&)>& change, std::string_view expected) {
  static const std::string text = to_json(sample());
  Json json = Json::parse(text);
  change(json);
  const Result<Plan> read = plan_from_json(json.dump());
  REQUIRE_FALSE(read.is_ok());
  CHECK(read.status().code() == StatusCode::kInvalidArgument);
  INFO(read.status().message());
  CHECK(read.status().message().find(expected) != std::string::npos);
}

TEST_CASE("what is missing, of another type or unknown is named") {
  check_json_refused([](Json& json) { json.erase("epoch"); }, "epoch is missing");
  check_json_refused([](Json& json) { json["epoch"] = -1; }, "epoch is not a whole number");
  check_json_refused([](Json& json) { json["epoch"] = 1ULL << 40U; }, "epoch is too large");
  check_json_refused([](Json& json) { json["format"] = "square.plan/2"; }, "square.plan/2");
  check_json_refused([](Json& json) { json = Json::array(); }, "is not an object");
  check_json_refused([](Json& json) { json["jain"] = nullptr; }, "jain is not a number");
  check_json_refused([](Json& json) { json["sessions"] = 3; }, "sessions is not an array");
  check_json_refused([](Json& json) { json["sessions"][1] = 3; }, "sessions[1] is not an object");
  check_json_refused([](Json& json) { json["sessions"][0].erase("rate_mbps"); },
                     "sessions[0].rate_mbps is missing");
  check_json_refused([](Json& json) { json["sessions"][0]["rate_mbps"] = "1"; }, "neither a number nor null");
  check_json_refused([](Json& json) { json["sessions"][0]["root"] = "lon"; },
                     "sessions[0].root names \"lon\"");
  check_json_refused([](Json& json) { json["sessions"][0]["root"] = 0; }, "sessions[0].root names 0");
  check_json_refused([](Json& json) { json["sessions"][0]["id"] = 0; }, "sessions[0].id is not a string");
  check_json_refused([](Json& json) { json["sessions"][0]["id"] = "x1"; }, "not an id");
  check_json_refused([](Json& json) { json["sessions"][0]["id"] = "4294967296"; }, "not an id");
  check_json_refused([](Json& json) { json["sessions"][0]["collective"] = "9"; }, "not a collective");
  check_json_refused([](Json& json) { json["sessions"][0]["kind"] = "anycast"; }, "anycast");
  check_json_refused([](Json& json) { json["sessions"][0]["pair"] = "9"; }, "sessions[0].pair is 9");
  check_json_refused([](Json& json) { json["sessions"][0]["size_bytes"] = 1.5; },
                     "size_bytes is not a whole number");
  check_json_refused([](Json& json) { json["sessions"][0]["streams"][0]["links"][0] = Json::array({"fra"}); },
                     "sessions[0].streams[0].links has an entry that is not a pair");
  check_json_refused([](Json& json) { json["sessions"][0]["streams"][0]["coded"] = 0; },
                     "coded is not true or false");
  check_json_refused([](Json& json) { json["sessions"][0]["paths"][0]["nodes"][0] = "lon"; },
                     "paths[0].nodes");
  check_json_refused([](Json& json) { json["collectives"][0]["op"] = "sum"; }, "collectives[0].op");
  check_json_refused([](Json& json) { json["collectives"][0]["sessions"][0] = "9"; },
                     "collectives[0].sessions names 9");
  check_json_refused([](Json& json) { json["nodes"][1]["name"] = "fra"; }, "nodes[1].name");
  check_json_refused([](Json& json) { json["links"][0]["latency_ms"] = -1; }, "links[0].latency_ms");
  check_json_refused([](Json& json) { json["certificate"]["cuts"][0]["source_side"][0] = "lon"; },
                     "certificate.cuts[0].source_side");
}

TEST_CASE("text that is not JSON, or too much of it, is refused") {
  for (const std::string_view text :
       {"", "{", "[1,", "nul", "{\"format\": \"square.plan/1\"} x", "\xff\xfe"}) {
    const Result<Plan> read = plan_from_json(text);
    REQUIRE_FALSE(read.is_ok());
    CHECK(read.status().code() == StatusCode::kInvalidArgument);
  }
  const std::string deep(200'000, '[');
  CHECK(plan_from_json(deep).status().code() == StatusCode::kInvalidArgument);
  const std::string large(kMaxPlanBytes + 1, ' ');
  CHECK(plan_from_json(large).status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("a name that is not UTF-8 does not throw") {
  Plan plan;
  plan.nodes.push_back({"bad\xff", kUnlimited, kUnlimited});
  CHECK(plan_from_json(to_json(plan)).is_ok());
}

TEST_CASE("lookups and Jain's index") {
  const Plan plan = sample();
  CHECK(plan.find_collective(CollectiveId(1)) == &plan.collectives[1]);
  CHECK(plan.find_collective(CollectiveId(9)) == nullptr);
  CHECK(plan.find_session(SessionId(0)) == &plan.sessions[0]);
  CHECK(plan.find_session(SessionId(9)) == nullptr);
  CHECK(plan.find_node("syd") == NodeId(2));
  CHECK_FALSE(plan.find_node("lon").has_value());
  CHECK(jain_index({}) == 1);
  CHECK(jain_index({0, 0}) == 1);
  CHECK(jain_index({3, 3, 3}) == doctest::Approx(1));
  CHECK(jain_index({1, 0, 0, 0}) == doctest::Approx(0.25));
}

}  // namespace
}  // namespace square
