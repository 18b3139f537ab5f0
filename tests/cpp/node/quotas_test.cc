// What a tenant may have under way on a node, as it was granted.
#include "node/operations/quotas.h"

#include <doctest/doctest.h>

#include <deque>

#include "node/tenants.h"

using namespace square;
using namespace square::test;

namespace {

OperationKey key(std::uint64_t operation) { return {CollectiveId(0), OperationId(operation)}; }

Quotas of(const std::string& tenant, Quota quota) {
  Plan plan;
  plan.tenants.push_back({tenant, 1.0, 0.0, quota});
  Quotas quotas;
  quotas.set(plan);
  return quotas;
}

}  // namespace

TEST_CASE("quotas: operations are counted until they end, each once") {
  Quotas quotas = of("a", {.operations = 2});
  for (const std::uint64_t i : {0, 1}) {
    REQUIRE(quotas.check(key(i), "a", 10).is_ok());
    quotas.add(key(i), "a", 10);
  }
  CHECK(quotas.check(key(2), "a", 10).code() == StatusCode::kResourceExhausted);
  CHECK(quotas.check(key(1), "a", 10).is_ok());  // another rank's call of the same
  CHECK(quotas.check(key(2), "b", 10).is_ok());
  quotas.end(key(0));
  quotas.end(key(0));
  CHECK(quotas.check(key(2), "a", 10).is_ok());
}

TEST_CASE("quotas: bytes are those of all calls") {
  Quotas quotas = of("a", {.bytes = 100});
  CHECK(quotas.check(key(0), "a", 101).code() == StatusCode::kResourceExhausted);
  quotas.add(key(0), "a", 60);
  CHECK(quotas.check(key(0), "a", 41).code() == StatusCode::kResourceExhausted);
  REQUIRE(quotas.check(key(0), "a", 40).is_ok());
  quotas.add(key(0), "a", 40);
  CHECK_FALSE(quotas.check(key(1), "a", 1).is_ok());
  quotas.end(key(0));
  CHECK(quotas.check(key(1), "a", 100).is_ok());
}

TEST_CASE("a tenant calls no more at once than it was granted, and goes on when some have ended") {
  Overlay overlay(41, 2);
  TenantPlan tenants(2);
  tenants.add_tenant("small", 1.0);
  tenants.add_link(0, 1, 100 * kMbps);
  const CollectiveId collective = tenants.add_chain("small", {0, 1}, 10 * kMbps);
  Plan plan = *tenants.build();
  for (PlanTenant& tenant : plan.tenants) tenant.open.operations = 3;
  REQUIRE(overlay.publish(std::make_shared<const Plan>(plan)));
  overlay.set_members(collective, {0, 1});
  std::deque<Broadcast> calls;
  for (std::uint64_t i = 0; i < 4; ++i) {
    calls.emplace_back(collective, std::vector<std::uint32_t>{0, 1}, payload(1'000, i));
    calls.back().operation = OperationId(i);
    if (i < 3) calls.back().post(overlay, 0);
  }
  calls[3].post(overlay, 0);
  pass(overlay, std::chrono::milliseconds(100));
  REQUIRE(calls[3].outcomes[0]);
  CHECK(calls[3].outcomes[0]->code() == StatusCode::kResourceExhausted);
  CHECK(calls[3].outcomes[0]->message().find("\"small\"") != std::string::npos);
  for (std::uint64_t i = 0; i < 3; ++i) calls[i].post(overlay, 1);
  REQUIRE(overlay.run([&] { return calls[2].is_over(); }, std::chrono::seconds(60)));
  Broadcast again(collective, {0, 1}, payload(1'000, 3));
  again.operation = OperationId(3);
  again.post_all(overlay);
  REQUIRE(overlay.run([&] { return again.is_over(); }, std::chrono::seconds(60)));
  CHECK(again.is_right());
}
