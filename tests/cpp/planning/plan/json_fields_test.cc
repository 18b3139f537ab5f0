// JSON says every member of a plan's structs, but for those that only nodes are told.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "full_plan.h"

namespace square {
namespace {

using namespace square::testing;
using plan_fields::are_same_member;

// By name, so that none is left out of JSON by mistake.
bool is_for_nodes(const auto& field) {
  const auto is = [&](auto member) { return are_same_member(field.member, member); };
  return is(&PlanStream::latency) || is(&PlanStream::is_spare) || is(&PlanSession::block_limit_bytes) ||
         is(&PlanCollective::since) || is(&PlanLink::most_bps) || is(&PlanLink::pace_bps) || is(&Plan::part);
}

TEST_CASE("JSON gives every member back") {
  const Plan plan = full_plan();
  REQUIRE(members_at_default(plan).empty());
  const Result<Plan> read = plan_from_json(to_json(plan));
  REQUIRE_MESSAGE(read.is_ok(), read.status().to_string());
  CHECK_FALSE(plan_fields::same_fields(plan, *read));
  CHECK(
      plan_fields::same_fields(without(plan, [](const auto& field) { return is_for_nodes(field); }), *read));
}

TEST_CASE("JSON has the keys that older releases read, in their order") {
  const auto json = nlohmann::ordered_json::parse(to_json(full_plan()));
  const auto keys = [](const nlohmann::ordered_json& object) {
    std::string text;
    for (const auto& item : object.items()) text += item.key() + " ";
    return text;
  };
  CHECK(keys(json) ==
        "format epoch origin policy solve_seconds min_rate_mbps total_rate_mbps jain cost_usd_per_hour "
        "budget_usd_per_hour realised provisional headroom changes tenants certificate collectives sessions "
        "nodes "
        "links ");
  CHECK(json["origin"].dump() == R"({"store":"000000000000ab12","term":3})");
  CHECK(json["tenants"][0].dump() ==
        R"({"name":"t","weight":2.5,"rate_mbps":3.0,"open_operations":7,"open_bytes":8000})");
  CHECK(keys(json["collectives"][0]) ==
        "id tenant op weight bytes lp_rate_mbps rate_mbps bound_mbps completion_seconds cost_usd_per_hour "
        "sessions "
        "group ");
  CHECK(keys(json["sessions"][0]) ==
        "id collective kind root members offset_bytes size_bytes pair lp_rate_mbps rate_mbps paths streams "
        "codes "
        "max_latency_ms ");
  CHECK(keys(json["sessions"][0]["streams"][3]) ==
        "links rate_mbps coded code origin adds row byte_factors byte_row ");
  CHECK(json["sessions"][0]["streams"][1]["byte_factors"].dump() == "[]");
  CHECK(keys(json["sessions"][0]["codes"][1]) == "field blocks redundancy rate_mbps sinks ");
  CHECK(keys(json["sessions"][0]["codes"][0]) == "field blocks rate_mbps sinks ");
  CHECK(json["nodes"].dump() == R"([{"name":"a","egress_mbps":11.0,"ingress_mbps":12.0,"relays":false},)"
                                R"({"name":"b","egress_mbps":null,"ingress_mbps":null},)"
                                R"({"name":"c","egress_mbps":null,"ingress_mbps":null}])");
  CHECK(json["certificate"].dump() ==
        R"({"level_bound_mbps":9.0,"cuts":[{"collective":"1","source_side":["b"],"bound_mbps":5.0}],)"
        R"("levels":[{"bound_mbps":4.0,"collectives":["2"],"links":[["b","c",0.5]],"egress":[["b",0.125]],)"
        R"("ingress":[["c",0.75]],"budget":1.5,)"
        R"("packings":[{"sessions":["2"],"cuts":[{"far_side":["b","c"],"length":0.25}]}]}],)"
        R"("cost_bound_usd_per_hour":12.5})");
}

}  // namespace
}  // namespace square
