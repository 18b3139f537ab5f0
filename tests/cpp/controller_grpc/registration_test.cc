// Groups: the same from every member, one plan for many, none for what cannot be.
#include <thread>

#include "controller_grpc/fixture.h"
#include "square/validator.h"

using namespace square;
using namespace square::test;

namespace {

Status refusal(Controller& controller, const GroupSpec& group) {
  const auto registered = controller.register_group(group);
  CHECK_FALSE(registered.is_ok());
  return registered.status();
}

void check_refused(Controller& controller, const GroupSpec& group, const std::string& words) {
  const Status status = refusal(controller, group);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_MESSAGE(status.message().find(words) != std::string::npos, status.message());
}

}  // namespace

TEST_CASE("a group is registered once and grows") {
  const auto controller = start(mesh({"a", "b", "c"}));
  GroupSpec group = broadcast_group("g", {"a", "b"});
  const auto first = controller->register_group(group);
  REQUIRE(first.is_ok());
  const auto again = controller->register_group(group);
  REQUIRE(again.is_ok());
  CHECK(again->collectives == first->collectives);
  CHECK(again->epoch == first->epoch);

  group.collectives.insert(group.collectives.begin(), {CollectiveOp::kBroadcast, Rank(1), 1.0, 0});
  group.collectives.push_back({CollectiveOp::kAllGather, Rank(1), 1.0, 4096});
  const auto grown = controller->register_group(group);
  REQUIRE_MESSAGE(grown.is_ok(), grown.status().to_string());
  REQUIRE(grown->collectives.size() == 3);
  CHECK(grown->collectives[1] == first->collectives[0]);
  CHECK(grown->epoch > first->epoch);
  // A root means nothing to an all-gather; a size that was not known is learnt.
  group.collectives[0].size_bytes = 77;
  group.collectives[2].root = Rank(0);
  const auto sized = controller->register_group(group);
  REQUIRE(sized.is_ok());
  CHECK(sized->collectives == grown->collectives);
  CHECK(controller->plan()->find_collective(grown->collectives[0])->size_bytes == 77);
  group.collectives[0].size_bytes = 99;
  CHECK(controller->register_group(group)->epoch == sized->epoch);
  CHECK(controller->plan()->find_collective(grown->collectives[0])->size_bytes == 77);
}

TEST_CASE("a relay that leaves is planned around, and used again when it is back") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  auto c = FakeNode::join(*controller, "c");
  const auto registered = controller->register_group(broadcast_group("g", {"a", "b"}));
  REQUIRE(registered.is_ok());
  const auto rate = [&] { return controller->plan()->find_collective(registered->collectives[0])->rate_bps; };
  CHECK(rate() == doctest::Approx(200e6));
  c->leave();
  CHECK(eventually([&] { return rate() == doctest::Approx(100e6); }));
  CHECK(a->wait_for_active(controller->plan()->epoch));
  c = FakeNode::join(*controller, "c");
  CHECK(eventually([&] { return rate() == doctest::Approx(200e6); }));
  CHECK(c->wait_for_active(controller->plan()->epoch));
  // A member that leaves relays nothing any more, for the rest of its group.
  const Epoch epoch = controller->plan()->epoch;
  b->leave();
  CHECK(eventually([&] { return controller->plan()->epoch == Epoch(epoch.value() + 1); }));
  CHECK_FALSE(controller->plan()->nodes[controller->plan()->find_node("b")->index()].relays);
  CHECK(controller->register_group(broadcast_group("h", {"a", "c"})).is_ok());
}

TEST_CASE("a registration that differs from the others' is refused in words") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const GroupSpec group = broadcast_group("g", {"a", "b"});
  REQUIRE(controller->register_group(group).is_ok());
  const Epoch epoch = controller->plan()->epoch;
  GroupSpec other = group;
  other.tenant = "bob";
  check_refused(*controller, other, "tenant \"alice\", this one for \"bob\"");
  other = group;
  other.nodes = {"a", "c"};
  check_refused(*controller, other, "rank 1 on node \"b\", this one on \"c\"");
  other.nodes = {"a"};
  check_refused(*controller, other, "2 members, this one with 1");
  other = group;
  other.collectives[0].weight = 2;
  check_refused(*controller, other, "weight 1, this one with 2");
  other.collectives[0].weight = -1;
  check_refused(*controller, other, "the weight is -1; it must be from 0.0001 to 10000");
  other = group;
  other.collectives[0].root = Rank(2);
  check_refused(*controller, other, "rank 2");
  other = group;
  other.nodes = {"a", "nowhere"};
  check_refused(*controller, other, "\"nowhere\"");
  check_refused(*controller, {"", "alice", {"a"}, {}}, "name");
  check_refused(*controller, {"h", "", {"a"}, {}}, "tenant");
  check_refused(*controller, {"h", "alice", {}, {}}, "members");
  check_refused(*controller, {std::string(257, 'g'), "alice", {"a"}, {}}, "name");
  CHECK(controller->plan()->epoch == epoch);
}

TEST_CASE("ranks may share a node, and one node needs no session") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto shared = controller->register_group(broadcast_group("shared", {"b", "a", "b", "a"}, Rank(3)));
  REQUIRE_MESSAGE(shared.is_ok(), shared.status().to_string());
  const Plan plan = *controller->plan();
  const PlanCollective* const collective = plan.find_collective(shared->collectives[0]);
  REQUIRE(collective != nullptr);
  REQUIRE(collective->sessions.size() == 1);
  const PlanSession* const session = plan.find_session(collective->sessions[0]);
  CHECK(session->root == plan.find_node("a"));
  CHECK(session->members.size() == 2);
  const auto alone = controller->register_group(broadcast_group("alone", {"c", "c"}));
  REQUIRE_MESSAGE(alone.is_ok(), alone.status().to_string());
  REQUIRE(controller->plan()->find_collective(alone->collectives[0]) != nullptr);
  CHECK(controller->plan()->find_collective(alone->collectives[0])->sessions.empty());
  CHECK(validate(*controller->plan()).is_ok());
}

TEST_CASE("what cannot be planned is rolled back") {
  Scenario scenario = mesh({"a", "b"});
  REQUIRE(scenario.topology.add_node({"island"}).is_ok());
  const auto controller = start(scenario);
  const auto first = controller->register_group(broadcast_group("g", {"a", "b"}));
  REQUIRE(first.is_ok());
  const Status unreachable = refusal(*controller, broadcast_group("far", {"a", "island"}));
  CHECK(unreachable.code() == StatusCode::kFailedPrecondition);
  CHECK(unreachable.message().find("island") != std::string::npos);
  CHECK(controller->plan()->epoch == first->epoch);
  // Nothing of it is left: neither its name nor its part in later plans.
  GroupSpec unknown = broadcast_group("far", {"b", "a"});
  unknown.tenant = "bob";
  CHECK(controller->register_group(unknown).is_ok());
  CHECK(controller->plan()->collectives.size() == 2);
}

TEST_CASE("many registrations at once cause few plans, and a bad one is refused alone") {
  Scenario scenario = mesh({"a", "b", "c", "d"});
  REQUIRE(scenario.topology.add_node({"island"}).is_ok());
  const auto controller = start(scenario);
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  constexpr int kGroups = 20;
  constexpr int kBad = 7;
  std::vector<Status> outcomes(kGroups);
  std::vector<std::thread> threads;
  for (int i = 0; i < kGroups; ++i) {
    threads.emplace_back([&, i] {
      FakeNode& node = i % 2 == 0 ? *a : *b;
      const std::string peer = i == kBad ? "island" : "c";
      outcomes[static_cast<std::size_t>(i)] =
          node.client()
              .register_group(broadcast_group("g" + std::to_string(i), {"a", "b", peer}), kPatience)
              .status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kGroups; ++i) {
    const Status& outcome = outcomes[static_cast<std::size_t>(i)];
    CAPTURE(i);
    if (i == kBad) {
      CHECK(outcome.code() == StatusCode::kFailedPrecondition);
    } else {
      CHECK_MESSAGE(outcome.is_ok(), outcome.to_string());
    }
  }
  CHECK(controller->plan()->collectives.size() == kGroups - 1);
  MESSAGE("20 registrations took ", controller->plan()->epoch.value() - 1, " plans");
  CHECK(controller->plan()->epoch.value() <= 6);
  CHECK(validate(*controller->plan()).is_ok());
}

TEST_CASE("a group leaves the plan with its last member") {
  const auto controller = start(mesh({"a", "b", "c"}));
  auto a = FakeNode::join(*controller, "a");
  auto b = FakeNode::join(*controller, "b");
  const auto registered = a->client().register_group(broadcast_group("g", {"a", "b"}), kPatience);
  REQUIRE(registered.is_ok());
  REQUIRE(controller->register_group(broadcast_group("other", {"c", "b"})).is_ok());
  a->leave();
  // b is there: the group stays.
  REQUIRE(eventually([&] { return !controller->nodes()[0].connected; }));
  REQUIRE(controller->register_group(broadcast_group("third", {"c", "a"})).is_ok());
  CHECK(controller->plan()->find_collective(registered->collectives[0]) != nullptr);
  b->leave();
  CHECK(
      eventually([&] { return controller->plan()->find_collective(registered->collectives[0]) == nullptr; }));
  // Its numbers are not given again.
  const auto fresh = controller->register_group(broadcast_group("g", {"a", "b"}));
  REQUIRE(fresh.is_ok());
  CHECK(fresh->collectives[0] > registered->collectives[0]);
}
