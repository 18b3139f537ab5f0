// Registrations with an operator who grants them.
#include <doctest/doctest.h>

#include "../trust/issued.h"
#include "controller/granting.h"
#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;
using square::testing::Issuer;

namespace {

Grant grant_of(const std::string& tenant) {
  Grant grant;
  grant.tenant = tenant;
  grant.expires = 4'000'000'000;
  return grant;
}

GroupSpec group_of(const std::string& name, const std::string& tenant) {
  GroupSpec group = broadcast_group(name, {"a", "b"});
  group.tenant = tenant;
  return group;
}

// A controller of an authority with the node `a`, in whose folder grants are put.
struct Overlay {
  Issuer issuer;
  std::unique_ptr<Controller> controller;
  std::unique_ptr<FakeNode> a;

  explicit Overlay(const std::string& store = "") {
    issuer.issue(Role::kNode, "a");
    begin(store);
  }
  void begin(const std::string& store = "") {
    ControllerOptions options;
    options.identity = issuer.identity(Role::kController, "c");
    options.store = store;
    controller = start(mesh({"a", "b"}), options);
    FakeNode::Options node;
    node.identity = Identity::open(issuer.folder("a")).value();
    a = FakeNode::join(*controller, "a", node);
  }
  void put(const Grant& grant) const {
    const Status put = issuer.authority().write_grant(grant, issuer.folder("a"));
    REQUIRE_MESSAGE(put.is_ok(), put.to_string());
  }
  [[nodiscard]] Status ask(const GroupSpec& group) const {
    return a->client().register_group(group, kPatience).status();
  }
  // As the node was told.
  [[nodiscard]] Quota quota_of(const std::string& tenant) const {
    Quota quota;
    for (const FakeNode::Event& event : a->events()) {
      if (!event.plan) continue;
      for (const PlanTenant& one : event.plan->tenants) {
        if (one.name == tenant) quota = one.open;
      }
    }
    return quota;
  }
  [[nodiscard]] double weight_of(const std::string& tenant) const {
    const auto plan = controller->plan();
    for (const PlanTenant& one : plan->tenants) {
      if (one.name == tenant) return one.weight;
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("a tenant registers what it was granted, and has the weight that it was granted") {
  const Overlay overlay;
  const Status without = overlay.ask(group_of("g", "alice"));
  CHECK(without.code() == StatusCode::kPermissionDenied);
  CHECK(without.message().find("square ca grant") != std::string::npos);
  Grant grant = grant_of("alice");
  grant.weight = 3;
  overlay.put(grant);
  CHECK(overlay.ask(group_of("g", "alice")).is_ok());
  CHECK(overlay.weight_of("alice") == 3);
  // A new one counts from the next registration on.
  grant.weight = 2;
  grant.open = {.operations = 5, .bytes = 1'000};
  overlay.put(grant);
  CHECK(overlay.ask(group_of("h", "alice")).is_ok());
  CHECK(overlay.quota_of("alice") == Quota{5, 1'000});
}

TEST_CASE("nobody registers as another tenant, nor in its group, nor beyond what was granted") {
  const Overlay overlay;
  overlay.put(grant_of("alice"));
  Grant small = grant_of("bob");
  small.nodes = {"a"};
  overlay.put(small);
  REQUIRE(overlay.ask(group_of("g", "alice")).is_ok());
  CHECK(overlay.ask(group_of("g", "bob")).code() != StatusCode::kOk);
  CHECK(overlay.ask(group_of("h", "mallory")).code() == StatusCode::kPermissionDenied);
  const Status elsewhere = overlay.ask(group_of("i", "bob"));
  CHECK(elsewhere.code() == StatusCode::kPermissionDenied);
  CHECK(elsewhere.message().find("\"b\"") != std::string::npos);
  GroupSpec heavy = group_of("j", "alice");
  heavy.collectives[0].weight = 1e6;
  CHECK(overlay.ask(heavy).code() == StatusCode::kPermissionDenied);
  Grant few = grant_of("alice");
  few.groups = 1;
  overlay.put(few);
  CHECK(overlay.ask(group_of("k", "alice")).code() == StatusCode::kResourceExhausted);
  CHECK(overlay.ask(group_of("g", "alice")).is_ok());
  few.sessions = 1;
  few.groups = 2;
  overlay.put(few);
  CHECK(overlay.ask(group_of("k", "alice")).code() == StatusCode::kResourceExhausted);
  CHECK(overlay.ask(group_of("g", "alice")).is_ok());
  Grant over = grant_of("alice");
  over.expires = 1;
  overlay.put(over);
  const Status expired = overlay.ask(group_of("g", "alice"));
  CHECK(expired.code() == StatusCode::kPermissionDenied);
  CHECK(expired.message().find("expired") != std::string::npos);
}

TEST_CASE("the grant of another authority is none") {
  const Overlay overlay;
  const Issuer stranger;
  REQUIRE(stranger.authority().write_grant(grant_of("alice"), overlay.issuer.folder("a")).is_ok());
  CHECK(overlay.ask(group_of("g", "alice")).code() == StatusCode::kUnauthenticated);
}

TEST_CASE("a controller that starts again knows what was granted") {
  const Issuer place;  // its directory
  const std::string store = place.folder("store.sqlite");
  Overlay overlay(store);
  Grant grant = grant_of("alice");
  grant.weight = 3;
  overlay.put(grant);
  REQUIRE(overlay.ask(group_of("g", "alice")).is_ok());
  overlay.a.reset();
  overlay.controller.reset();
  overlay.begin(store);
  CHECK(overlay.ask(group_of("g", "alice")).is_ok());
  CHECK(overlay.weight_of("alice") == 3);
}

TEST_CASE("what an earlier controller gave is taken with a grant for all of it only") {
  const Issuer issuer;
  Scenario scenario;
  scenario.topology = mesh({"a", "b"}).topology;
  const auto identity = issuer.identity(Role::kController, "c");
  controller::GroupRegistry registry(scenario, controller::granting_of(identity));
  controller::GroupRegistry::Adopted group{group_of("g", "alice"), {CollectiveId(0)}, 1, {}};
  CHECK(registry.adopt(group, scenario.topology).status().code() == StatusCode::kPermissionDenied);
  group.spec.grant = issuer.authority().grant(grant_of("alice")).value();
  CHECK(registry.adopt(group, scenario.topology).is_ok());
  // Another node tells of the same group, with more.
  group.spec.collectives.push_back({.op = CollectiveOp::kAllGather, .weight = 1e6});
  group.collectives.emplace_back(1);
  CHECK(registry.adopt(group, scenario.topology).status().code() == StatusCode::kPermissionDenied);
  CHECK(registry.groups().at("g")->collectives.size() == 1);
}
