// Registrations with an operator who grants them.
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "../trust/issued.h"
#include "controller/adoption.h"
#include "controller/granting.h"
#include "controller/plan_source.h"
#include "controller/protocol.h"
#include "controller/succession.h"
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
    controller = start(mesh({"a", "b", "c"}), options);
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
  // Nor with a copy of the grant, on a node that is no member.
  GroupSpec others = group_of("k", "alice");
  others.nodes = {"b", "c"};
  const Status copied = overlay.ask(others);
  CHECK(copied.code() == StatusCode::kPermissionDenied);
  CHECK(copied.message().find("node \"a\" shows the grant of tenant \"alice\" for group \"k\"") !=
        std::string::npos);
  GroupSpec heavy = group_of("j", "alice");
  heavy.collectives[0].weight = 1e4;
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
  group.spec.collectives.push_back({.op = CollectiveOp::kAllGather, .weight = 1e4});
  group.collectives.emplace_back(1);
  CHECK(registry.adopt(group, scenario.topology).status().code() == StatusCode::kPermissionDenied);
  CHECK(registry.groups().at("g")->collectives.size() == 1);
}

TEST_CASE("who joins a group that grows shows a grant of its tenant, or none where nobody grants") {
  const Issuer issuer;
  const Issuer stranger;
  const auto granting = controller::granting_of(issuer.identity(Role::kController, "c"));
  Grant on_a = grant_of("alice");
  on_a.nodes = {"a"};
  Grant over = grant_of("carol");
  over.expires = 1;
  const std::vector<std::string> shown{
      issuer.authority().grant(on_a).value(), issuer.authority().grant(grant_of("bob")).value(),
      issuer.authority().grant(over).value(), stranger.authority().grant(grant_of("dave")).value(), "none"};
  using Tenants = std::map<std::string, bool>;
  CHECK(granting->tenants_of(shown, "a") == Tenants{{"alice", true}, {"bob", true}, {"carol", false}});
  CHECK(granting->tenants_of(shown, "b") == Tenants{{"alice", false}, {"bob", true}, {"carol", false}});
}

TEST_CASE("a node that shows no grant takes no joiner's place") {
  Overlay overlay;
  overlay.put(grant_of("alice"));
  REQUIRE(overlay.ask(group_of("g", "alice")).is_ok());
  const auto join = [&](const std::string& node, const std::string& tenant) {
    overlay.issuer.issue(Role::kNode, node);
    REQUIRE(overlay.issuer.authority().write_grant(grant_of(tenant), overlay.issuer.folder(node)).is_ok());
    FakeNode::Options options;
    options.identity = Identity::open(overlay.issuer.folder(node)).value();
    return FakeNode::join(*overlay.controller, node, options);
  };
  // It comes first, and is to be of alice's group, which it was not granted.
  const auto c = join("c", "mallory");
  const auto ask_to_join = [&] { return c->client().regroup({.group = "g", .joiner = 7}, kPatience); };
  auto refused = std::async(std::launch::async, ask_to_join);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto number = overlay.a->client().register_group(group_of("g", "alice"), kPatience)->number;
  auto grown = std::async(std::launch::async, [&] {
    return overlay.a->client().regroup({"g", number, {Rank(0)}, 0, 1}, kPatience);
  });
  CHECK(refused.get().status().code() == StatusCode::kPermissionDenied);
  REQUIRE(overlay.issuer.authority().write_grant(grant_of("alice"), overlay.issuer.folder("c")).is_ok());
  REQUIRE(ask_to_join().is_ok());
  const auto next = grown.get();
  REQUIRE_MESSAGE(next.is_ok(), next.status().to_string());
  CHECK(next->nodes == std::vector<std::string>{"a", "c"});
}

namespace {

v1::Past past_of(const GroupSpec& group, std::uint64_t store) {
  v1::Past past;
  past.set_store(store);
  past.set_term(1);
  past.set_epoch(5);
  past.set_next_collective(10);
  past.set_next_session(10);
  past.set_next_group(3);
  v1::RunningGroup& running = *past.add_groups();
  *running.mutable_group() = controller::to_message(group);
  running.set_number(2);
  running.add_collectives(4);
  return past;
}

}  // namespace

TEST_CASE("a node tells of an earlier controller what its own members ran, and no number near the end") {
  Scenario scenario = mesh({"a", "b", "c"});
  const controller::PlanningState state{"", scenario.topology, {}, {}, controller::GroupRegistry(scenario),
                                        {}};
  const v1::Past past = past_of(group_of("g", "alice"), 7);
  CHECK(controller::check_past(past, "a", state, false, false).is_ok());
  CHECK(controller::check_past(past, "c", state, false, false).code() == StatusCode::kPermissionDenied);
  for (const auto set : {&v1::Past::set_next_collective, &v1::Past::set_next_session}) {
    v1::Past high = past;
    (high.*set)(0xffffffffU - (1U << 26U));
    CHECK(controller::check_past(high, "a", state, false, false).code() == StatusCode::kInvalidArgument);
    CHECK(controller::check_past(high, "a", state, false, true).is_ok());
  }
  controller::SessionNumbers numbers;
  v1::RunningSession session;
  session.set_id(3);
  session.set_collective(4);
  session.set_kind("multicast");
  session.set_root("a");
  session.add_destinations("b");
  v1::Past sessions = past;
  *sessions.add_sessions() = session;
  controller::adopt_sessions(sessions, "c", state, numbers);
  CHECK(numbers.known.empty());
  controller::adopt_sessions(sessions, "b", state, numbers);
  CHECK(numbers.known.size() == 1);
}

TEST_CASE(
    "where tenants need grants nodes bring no more of other controllers once this one has led for a while") {
  const Issuer issuer;
  const auto identity = issuer.identity(Role::kController, "c");
  for (const bool needs_grants : {true, false}) {
    Scenario scenario = mesh({"a", "b"});
    controller::PlanningState state{
        "",
        scenario.topology,
        {},
        {},
        controller::GroupRegistry(scenario, needs_grants ? controller::granting_of(identity) : nullptr),
        {}};
    controller::Succession succession(store::make_memory_store(), false);
    controller::EpochPlanner planner(succession.origin(), controller::make_background_plan_source([] {}));
    controller::Member member;
    TimePoint now{};
    const auto brings = [&](std::uint64_t collective, const std::string& name) {
      GroupSpec group = group_of(name, "alice");
      group.grant = issuer.authority().grant(grant_of("alice")).value();
      v1::Hello hello;
      hello.set_node("a");
      *hello.mutable_past() = past_of(group, 7);
      v1::RunningGroup& running = *hello.mutable_past()->mutable_groups(0);
      running.set_number(collective);
      running.set_collectives(0, static_cast<std::uint32_t>(collective));
      hello.mutable_past()->set_next_group(collective + 1);
      hello.mutable_past()->set_next_collective(static_cast<std::uint32_t>(collective) + 1);
      CHECK(succession.note(hello, member, {}));
      return succession.absorb(state, planner, true, now).brought.at(0).right.code();
    };
    CHECK(brings(4, "g") == StatusCode::kOk);
    now += controller::kRecollectionTime + std::chrono::seconds(1);
    CHECK(brings(4, "g") == StatusCode::kOk);  // nothing new
    CHECK(brings(3, "h") == StatusCode::kOk);  // of which nothing is known any more
    CHECK(state.registry.groups().contains("h") == !needs_grants);
    CHECK(brings(5, "i") == (needs_grants ? StatusCode::kFailedPrecondition : StatusCode::kOk));
    CHECK(state.registry.groups().contains("i") == !needs_grants);
  }
}

TEST_CASE("a controller of an authority begins again with what its operator asked for, which has no grant") {
  const Issuer issuer;
  ControllerOptions options;
  options.identity = issuer.identity(Role::kController, "c");
  options.store = issuer.folder("store.sqlite");
  Scenario scenario = mesh({"a", "b"});
  CollectiveSpec wanted;
  wanted.tenant = "operator";
  wanted.members = {NodeId(0), NodeId(1)};
  wanted.size_bytes = 1'000'000;
  scenario.collectives = {wanted};
  scenario.tenants = {{"operator", 1.0}};
  for (int i = 0; i < 3; ++i) {
    const auto controller = Controller::start(options, scenario);
    REQUIRE_MESSAGE(controller.is_ok(), controller.status().to_string());
    CHECK(eventually([&] {
      const auto plan = (*controller)->plan();
      return plan && plan->collectives.size() == 1;
    }));
  }
}
