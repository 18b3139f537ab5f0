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

TEST_CASE("quotas: the first call of an operation takes its bytes, those of all ranks") {
  Quotas quotas = of("a", {.bytes = 100});
  CHECK(quotas.check_size("a", 101).code() == StatusCode::kResourceExhausted);
  CHECK(quotas.check_size("a", 100).is_ok());
  CHECK(quotas.check(key(0), "a", 101).code() == StatusCode::kResourceExhausted);
  quotas.add(key(0), "a", 100);
  CHECK(quotas.check(key(0), "a", 100).is_ok());
  quotas.add(key(0), "a", 100);
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
  CHECK_FALSE(calls[3].outcomes[0]);
  for (auto& call : calls) call.post(overlay, 1);
  REQUIRE(overlay.run([&] { return calls[3].is_over(); }, std::chrono::seconds(60)));
  for (const auto& call : calls) CHECK(call.is_right());
}

TEST_CASE("a call that waits for its tenant's room ends with its timeout, which says what it waited for") {
  Overlay overlay(42, 2);
  TenantPlan tenants(2);
  tenants.add_tenant("small", 1.0);
  tenants.add_link(0, 1, 100 * kMbps);
  const CollectiveId collective = tenants.add_chain("small", {0, 1}, 10 * kMbps);
  Plan plan = *tenants.build();
  for (PlanTenant& tenant : plan.tenants) tenant.open.operations = 1;
  REQUIRE(overlay.publish(std::make_shared<const Plan>(plan)));
  overlay.set_members(collective, {0, 1});
  Broadcast first(collective, {0, 1}, payload(1'000, 0));
  first.post(overlay, 0);
  Broadcast second(collective, {0, 1}, payload(1'000, 1));
  second.operation = OperationId(1);
  second.timeout = std::chrono::seconds(2);
  second.post(overlay, 0);
  REQUIRE(overlay.run([&] { return second.outcomes[0].has_value(); }, std::chrono::seconds(3)));
  CHECK(second.outcomes[0]->code() == StatusCode::kDeadlineExceeded);
  CHECK(second.outcomes[0]->message().find("\"small\" has 1 operations under way") != std::string::npos);
}

TEST_CASE("an operation that never has room fails on every member at once") {
  Overlay overlay(43, 2);
  TenantPlan tenants(2);
  tenants.add_tenant("small", 1.0);
  tenants.add_link(0, 1, 100 * kMbps);
  const CollectiveId collective = tenants.add_chain("small", {0, 1}, 10 * kMbps);
  Plan plan = *tenants.build();
  for (PlanTenant& tenant : plan.tenants) tenant.open.bytes = 999;
  REQUIRE(overlay.publish(std::make_shared<const Plan>(plan)));
  overlay.set_members(collective, {0, 1});
  Broadcast call(collective, {0, 1}, payload(1'000, 0));
  call.post_all(overlay);
  REQUIRE(overlay.run([&] { return call.is_over(); }, std::chrono::seconds(2)));
  for (const auto& outcome : call.outcomes) CHECK(outcome->code() == StatusCode::kResourceExhausted);
}
