// How plans come to be and become active.
#include <algorithm>
#include <atomic>
#include <future>
#include <span>
#include <thread>

#include "controller_grpc/fixture.h"
#include "square/validator.h"

using namespace square;
using namespace square::test;
using Kind = FakeNode::Event::Kind;

namespace {

std::vector<std::pair<Kind, Epoch>> plans_of(const FakeNode& node) {
  std::vector<std::pair<Kind, Epoch>> seen;
  for (const auto& event : node.events()) {
    if (event.kind == Kind::kPlan || event.kind == Kind::kActivate)
      seen.emplace_back(event.kind, event.epoch);
  }
  return seen;
}

PolicySpec policy(const std::string& name, int shots = 3) {
  PolicySpec spec;
  spec.name = name;
  spec.shots = shots;
  return spec;
}

bool has_plan(const std::vector<FakeNode::Event>& events, Epoch epoch) {
  return std::any_of(events.begin(), events.end(),
                     [&](const auto& event) { return event.kind == Kind::kPlan && event.epoch == epoch; });
}

}  // namespace

TEST_CASE("without nodes a plan is active at once") {
  Scenario scenario = mesh({"a", "b", "c"});
  scenario.tenants = {{"alice", 2.0}};
  scenario.collectives = {{CollectiveId(7),
                           "alice",
                           1.0,
                           CollectiveOp::kBroadcast,
                           AllReduceAlgorithm::kPlanned,
                           NodeId(1),
                           {NodeId(0), NodeId(1), NodeId(2)},
                           1'000'000,
                           std::nullopt,
                           {}}};
  const auto controller = start(scenario);
  REQUIRE(controller->plan() != nullptr);
  CHECK(controller->plan()->epoch == Epoch(1));
  CHECK(controller->plan()->find_collective(CollectiveId(7)) != nullptr);
  // The scenario's own group, as a member would register it.
  GroupSpec own = broadcast_group("collective/0", {"a", "b", "c"}, Rank(1));
  const auto known = controller->register_group(own);
  REQUIRE_MESSAGE(known.is_ok(), known.status().to_string());
  CHECK(known->collectives == std::vector{CollectiveId(7)});
  CHECK(known->epoch == Epoch(1));
  const auto added = controller->register_group(broadcast_group("more", {"a", "c"}));
  REQUIRE(added.is_ok());
  REQUIRE(added->collectives.size() == 1);
  CHECK(added->collectives.front() > CollectiveId(7));
  CHECK(added->epoch == Epoch(2));
  CHECK(controller->plan()->epoch == Epoch(2));
  CHECK(validate(*controller->plan()).is_ok());
}

TEST_CASE("exact plans follow one another with their proofs") {
  Scenario scenario = mesh({"a", "b", "c", "d"});
  scenario.policy = policy("exact");
  const auto controller = start(scenario);
  for (const auto& [name, members] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"first", {"a", "b", "c"}}, {"second", {"b", "c", "d"}}, {"third", {"d", "a"}}}) {
    const auto registered = controller->register_group(broadcast_group(name, members));
    REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
    const Status valid = validate(*controller->plan());
    CHECK_MESSAGE(valid.is_ok(), valid.message());
    CHECK_FALSE(controller->plan()->certificate.levels.empty());
  }
  REQUIRE(controller->set_policy(policy("square")).is_ok());
  REQUIRE(controller->set_policy(policy("exact")).is_ok());
  CHECK(validate(*controller->plan()).is_ok());
}

TEST_CASE("a plan is activated only when every node has installed it") {
  const auto controller = start(mesh({"a", "b", "c"}));
  FakeNode::Options by_hand;
  by_hand.installs = false;
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b", by_hand);
  REQUIRE(a->wait_for_active(Epoch(1)));
  REQUIRE(b->wait_for([](const auto& events) { return has_plan(events, Epoch(1)); }));
  b->install();
  REQUIRE(b->wait_for_active(Epoch(1)));

  auto registered = std::async(std::launch::async, [&] {
    return a->client().register_group(broadcast_group("g", {"a", "b"}), kPatience);
  });
  REQUIRE(b->wait_for([](const auto& events) { return has_plan(events, Epoch(2)); }));
  CHECK(registered.wait_for(200ms) == std::future_status::timeout);
  CHECK(controller->plan()->epoch == Epoch(1));
  CHECK(plans_of(*a).back() == std::pair(Kind::kPlan, Epoch(2)));
  b->install();
  const auto registration = registered.get();
  REQUIRE_MESSAGE(registration.is_ok(), registration.status().to_string());
  CHECK(registration->epoch == Epoch(2));
  // By the time it returns the plan is active on this node.
  const std::vector<std::pair<Kind, Epoch>> expected = {{Kind::kPlan, Epoch(1)},
                                                        {Kind::kActivate, Epoch(1)},
                                                        {Kind::kPlan, Epoch(2)},
                                                        {Kind::kActivate, Epoch(2)}};
  // On a machine that stalls others may follow.
  const auto begins_so = [&](const FakeNode& node) {
    const auto plans = plans_of(node);
    return plans.size() >= expected.size() &&
           std::ranges::equal(expected, std::span(plans).first(expected.size()));
  };
  CHECK(begins_so(*a));
  CHECK(b->wait_for_active(Epoch(2)));
  CHECK(begins_so(*b));
  CHECK(validate(*controller->plan()).is_ok());
}

TEST_CASE("a node that joins late takes part in the active plan and in the change in flight") {
  const auto controller = start(mesh({"a", "b", "c"}));
  FakeNode::Options by_hand;
  by_hand.installs = false;
  const auto a = FakeNode::join(*controller, "a", by_hand);
  REQUIRE(a->wait_for([](const auto& events) { return has_plan(events, Epoch(1)); }));
  a->install();
  auto registered = std::async(std::launch::async, [&] {
    return controller->register_group(broadcast_group("g", {"a", "b"}));
  });
  REQUIRE(a->wait_for([](const auto& events) { return has_plan(events, Epoch(2)); }));
  const auto b = FakeNode::join(*controller, "b", by_hand);
  REQUIRE(b->wait_for([](const auto& events) { return has_plan(events, Epoch(2)); }));
  a->install();
  CHECK(registered.wait_for(200ms) == std::future_status::timeout);
  b->install();
  CHECK(registered.get().is_ok());
  CHECK(a->wait_for_active(Epoch(2)));
  CHECK(b->wait_for_active(Epoch(2)));
  const auto c = FakeNode::join(*controller, "c");
  CHECK(c->wait_for_active(Epoch(2)));
  const auto plans = plans_of(*c);
  const auto active =
      std::ranges::find_if(plans, [](const auto& one) { return one.first == Kind::kActivate; });
  REQUIRE(active != plans.end());
  CHECK(active->second >= Epoch(2));
  CHECK(std::find(plans.begin(), active, std::pair(Kind::kPlan, active->second)) != active);
  CHECK(controller->wait_for_nodes({"a", "b", "c"}, kPatience).is_ok());
}

TEST_CASE("a node that leaves does not hold up a change") {
  const auto controller = start(mesh({"a", "b"}));
  FakeNode::Options by_hand;
  by_hand.installs = false;
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b", by_hand);
  auto registered = std::async(std::launch::async, [&] {
    return controller->register_group(broadcast_group("g", {"a", "b"}));
  });
  REQUIRE(b->wait_for([](const auto& events) { return has_plan(events, Epoch(2)); }));
  b->leave();
  CHECK(registered.get().is_ok());
  CHECK(a->wait_for_active(Epoch(2)));
}

TEST_CASE("a node that does not install in time is named and disconnected") {
  ControllerOptions options;
  options.install_timeout = 300ms;
  const auto controller = start(mesh({"a", "b", "c"}), options);
  FakeNode::Options by_hand;
  by_hand.installs = false;
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b", by_hand);
  // Not a member: the group is none of its business.
  CHECK(controller->register_group(broadcast_group("g", {"a", "c"})).is_ok());
  CHECK(b->wait_for([](const auto& events) {
    return std::any_of(events.begin(), events.end(),
                       [](const auto& event) { return event.kind == Kind::kLost; });
  }));
  // It comes back, is given the plan again, and does not install it either.
  REQUIRE(b->wait_for([](const auto& events) {
    const auto lost = std::ranges::find(events, Kind::kLost, &FakeNode::Event::kind);
    return std::find_if(lost, events.end(), [](const auto& event) { return event.kind == Kind::kPlan; }) !=
           events.end();
  }));
  const auto changed = controller->set_policy(policy("shortest-path"));
  CHECK(changed.status().code() == StatusCode::kDeadlineExceeded);
  CHECK(changed.status().message().find(": b") != std::string::npos);
  CHECK(a->wait_for_active(controller->plan()->epoch));
  CHECK(controller->plan()->policy == "shortest-path");
}

TEST_CASE("a node that is stopped holds up its own groups alone") {
  const auto controller = start(mesh({"a", "b", "c"}));
  FakeNode::Options by_hand;
  by_hand.installs = false;
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b", by_hand);
  const auto began = std::chrono::steady_clock::now();
  auto own = std::async(std::launch::async, [&] {
    return controller->register_group(broadcast_group("own", {"a", "b"}));
  });
  REQUIRE(b->wait_for([](const auto& events) { return has_plan(events, Epoch(2)); }));
  REQUIRE(controller->register_group(broadcast_group("g", {"a", "c"})).is_ok());
  REQUIRE(controller->register_group(broadcast_group("h", {"a", "c"})).is_ok());
  CHECK(std::chrono::steady_clock::now() - began < 5s);  // install_timeout is 10 s
  CHECK(a->wait_for_active(controller->plan()->epoch));
  CHECK(own.wait_for(100ms) == std::future_status::timeout);
  b->install();
  const auto registered = own.get();
  REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
  CHECK(b->wait_for_active(registered->epoch));
}

TEST_CASE("a policy that cannot be is refused and the old plan stays") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto a = FakeNode::join(*controller, "a");
  REQUIRE(controller->register_group(broadcast_group("g", {"a", "b", "c"})).is_ok());
  const auto sessions = controller->plan()->collectives.front().sessions;
  CHECK(controller->set_policy(policy("nonsense")).status().code() == StatusCode::kInvalidArgument);
  CHECK(controller->set_policy(policy("square", 0)).status().code() == StatusCode::kInvalidArgument);
  CHECK(controller->plan()->epoch == Epoch(2));
  const auto changed = controller->set_policy(policy("mcf"));
  REQUIRE(changed.is_ok());
  CHECK(*changed == Epoch(3));
  CHECK(a->wait_for_active(Epoch(3)));
  // Other sessions have other numbers, and the first ones have theirs again afterwards.
  for (const SessionId id : controller->plan()->collectives.front().sessions) {
    CHECK(std::find(sessions.begin(), sessions.end(), id) == sessions.end());
  }
  CHECK(validate(*controller->plan()).is_ok());
  REQUIRE(controller->set_policy(policy("square")).is_ok());
  CHECK(controller->plan()->collectives.front().sessions == sessions);
}

TEST_CASE("a topology is replaced, not shrunk") {
  const auto controller = start(mesh({"a", "b"}));
  REQUIRE(controller->register_group(broadcast_group("g", {"a", "b"})).is_ok());
  const double before = controller->plan()->collectives.front().rate_bps;
  Scenario wider = mesh({"c", "b", "a"});
  for (std::size_t i = 0; i < wider.topology.link_count(); ++i) {
    REQUIRE(wider.topology.set_capacity(LinkId(static_cast<std::uint32_t>(i)), mbps_to_bps(300)).is_ok());
  }
  const auto changed = controller->set_topology(wider.topology);
  REQUIRE_MESSAGE(changed.is_ok(), changed.status().to_string());
  CHECK(controller->plan()->collectives.front().rate_bps > 2.9 * before);
  CHECK(controller->plan()->find_node("a") == NodeId(0));
  CHECK(controller->plan()->find_node("c") == NodeId(2));
  const Status smaller = controller->set_topology(mesh({"b", "c"}).topology).status();
  CHECK(smaller.code() == StatusCode::kInvalidArgument);
  CHECK(smaller.message().find("\"a\"") != std::string::npos);
}

TEST_CASE("without a topology, nodes that join are the overlay") {
  const auto controller = start(Scenario{});
  CHECK(controller->plan() == nullptr);
  const auto a = FakeNode::join(*controller, "a");
  auto early = std::async(std::launch::async, [&] {
    return a->client().register_group(broadcast_group("g", {"a", "b"}), kPatience);
  });
  CHECK(early.wait_for(100ms) == std::future_status::timeout);  // waits for b
  const auto b = FakeNode::join(*controller, "b");
  const auto registered = early.get();
  REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
  CHECK(controller->plan()->links.size() == 2);
  CHECK(controller->plan()->collectives.front().rate_bps > 0);
  const auto c = FakeNode::join(*controller, "c");
  CHECK(eventually([&] { return controller->plan()->links.size() == 6; }));
  CHECK(validate(*controller->plan()).is_ok());
  // A node that is gone relays nothing.
  c->leave();
  CHECK(eventually([&] { return controller->plan()->links.size() == 2; }));
  CHECK(controller->plan()->nodes.size() == 3);
}

TEST_CASE("a node of an open overlay that never comes is named") {
  ControllerOptions options;
  options.install_timeout = 200ms;
  const auto controller = start(Scenario{}, options);
  const auto a = FakeNode::join(*controller, "a");
  const auto refused = a->client().register_group(broadcast_group("g", {"a", "nobody"}), kPatience);
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().message().find("\"nobody\"") != std::string::npos);
}
