// Groups that end: who has closed them, when their names are free, and what is left of them.
#include <algorithm>
#include <thread>

#include "controller/group_registry.h"
#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;
using controller::GroupRegistry;

namespace {

GroupSpec spec_of(const std::string& name, const std::string& registrant) {
  GroupSpec spec = broadcast_group(name, {"a", "b"});
  spec.registrant = registrant;
  return spec;
}

const auto kAll = [](const std::string&) { return true; };

std::size_t planned(const Controller& controller) { return controller.plan()->collectives.size(); }

}  // namespace

TEST_CASE("a group ends with the last member that is there, and only its own") {
  const Scenario scenario = mesh({"a", "b"});
  GroupRegistry registry{Scenario{}};
  const auto first = registry.add(spec_of("g", "a"), scenario.topology);
  REQUIRE(first.is_ok());
  CHECK_FALSE(registry.close("g", first->number + 1, "a", kAll));  // another group of that name
  CHECK_FALSE(registry.close("h", first->number, "a", kAll));
  CHECK(registry.add(spec_of("g", "a"), scenario.topology).is_ok());
  CHECK_FALSE(registry.close("g", first->number, "a", kAll));
  CHECK_FALSE(registry.close("g", first->number, "a", kAll));  // said again
  const auto early = registry.add(spec_of("g", "a"), scenario.topology);
  CHECK(early.status().code() == StatusCode::kAborted);
  CHECK(early.status().message().find("when these have: b") != std::string::npos);
  CHECK(registry.add(spec_of("g", "b"), scenario.topology)->collectives == first->collectives);
  CHECK(registry.close("g", first->number, "b", kAll));
  CHECK(registry.is_empty());
  const auto second = registry.add(spec_of("g", "a"), scenario.topology);
  REQUIRE(second.is_ok());
  CHECK(second->number != first->number);
  CHECK(second->collectives[0] > first->collectives[0]);
  // Who is not there has no part.
  CHECK(registry.close("g", second->number, "a", [](const std::string& node) { return node != "b"; }));
  // Who leaves has closed.
  const auto third = registry.add(spec_of("g", "a"), scenario.topology);
  CHECK_FALSE(registry.close("g", third->number, "a", kAll));
  CHECK(registry.remove_abandoned("b", [](const std::string& node) { return node == "a"; }) ==
        std::vector<std::string>{"g"});
  // Another process of its name has none either, before it registers.
  const auto fourth = registry.add(spec_of("g", "a"), scenario.topology);
  CHECK(registry.remove_abandoned("b", [](const std::string& node) { return node == "a"; }).empty());
  CHECK(registry.add(spec_of("g", "b"), scenario.topology).is_ok());
  CHECK_FALSE(registry.close("g", fourth->number, "a", kAll));
  CHECK(registry.remove_abandoned("b", [](const std::string& node) { return node == "a"; }) ==
        std::vector<std::string>{"g"});
  const auto fifth = registry.add(spec_of("g", "a"), scenario.topology);
  CHECK(registry.remove_abandoned("b", [](const std::string& node) { return node == "a"; }).empty());
  CHECK(registry.close("g", fifth->number, "a", kAll));
  // A scenario's are nobody's to close.
  Scenario own = scenario;
  own.collectives.push_back({CollectiveId(0),
                             "alice",
                             1.0,
                             CollectiveOp::kBroadcast,
                             AllReduceAlgorithm::kPlanned,
                             NodeId(0),
                             {NodeId(0), NodeId(1)},
                             100,
                             {},
                             {}});
  GroupRegistry permanent(own);
  CHECK_FALSE(permanent.close("collective/0", 0, "a", [](const std::string&) { return false; }));
  CHECK_FALSE(permanent.is_empty());
}

TEST_CASE("a closed group leaves the plan, and its name is free when all have closed it") {
  const auto controller = start(mesh({"a", "b"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  const GroupSpec group = broadcast_group("g", {"a", "b"});
  const auto first = a->client().register_group(group, kPatience);
  REQUIRE(first.is_ok());
  CHECK(controller->plan()->collectives[0].group == group_label("g", first->number));
  a->client().close_group("g", first->number);
  const auto early = a->client().register_group(group, 1s);
  CHECK(early.status().code() == StatusCode::kDeadlineExceeded);
  CHECK_MESSAGE(early.status().message().find("when these have: b") != std::string::npos,
                early.status().message());
  CHECK(planned(*controller) == 1);
  std::thread closing([&] {
    std::this_thread::sleep_for(50ms);
    b->client().close_group("g", first->number);
  });
  const auto second = a->client().register_group(group, kPatience);
  closing.join();
  REQUIRE_MESSAGE(second.is_ok(), second.status().to_string());
  CHECK(second->number != first->number);
  CHECK(second->collectives[0] != first->collectives[0]);
  CHECK(b->client().register_group(group, kPatience)->collectives == second->collectives);
  CHECK(planned(*controller) == 1);
  a->client().close_group("g", second->number);
  b->client().close_group("g", second->number);
  CHECK(eventually([&] { return planned(*controller) == 0; }));
  // It is a plan as any other.
  CHECK(a->wait_for_active(controller->plan()->epoch));
}

TEST_CASE("who leaves has closed all that it was a member of") {
  const auto controller = start(mesh({"a", "b"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  const auto made = a->client().register_group(broadcast_group("g", {"a", "b"}), kPatience);
  a->client().close_group("g", made->number);
  b->leave();
  CHECK(eventually([&] { return planned(*controller) == 0; }));
  CHECK(a->client().register_group(broadcast_group("g", {"a"}), kPatience).is_ok());
}

TEST_CASE("a controller that did not hear of the end of a group is told again") {
  auto controller = start(mesh({"a"}));
  ControllerOptions same;
  same.bind_address = controller->address();
  const auto a = FakeNode::join(*controller, "a");
  const auto made = a->client().register_group(broadcast_group("g", {"a"}), kPatience);
  REQUIRE(made.is_ok());
  controller->stop();
  controller.reset();
  REQUIRE(a->wait_for([](const auto& events) {
    return std::ranges::any_of(events,
                               [](const auto& event) { return event.kind == FakeNode::Event::Kind::kLost; });
  }));
  a->client().close_group("g", made->number);
  CHECK(a->client().register_group(broadcast_group("g", {"a"}), 50ms).status().code() ==
        StatusCode::kDeadlineExceeded);
  controller = start(mesh({"a"}), same);
  CHECK(
      eventually([&] { return a->client().register_group(broadcast_group("g", {"a"}), kPatience).is_ok(); }));
}

TEST_CASE("200 groups that come and go leave no trace in the plan") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  const auto c = FakeNode::join(*controller, "c");
  const std::size_t before = to_json(*controller->plan()).size();
  for (int i = 0; i < 200; ++i) {
    const std::string name = i % 2 == 0 ? "same" : "g" + std::to_string(i);
    const auto made = a->client().register_group(broadcast_group(name, {"a", "b"}), kPatience);
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    REQUIRE(planned(*controller) <= 2);  // with the one before
    a->client().close_group(name, made->number);
    b->client().close_group(name, made->number);
  }
  CHECK(eventually([&] { return planned(*controller) == 0; }));
  // But for the digits of its epoch and times.
  CHECK(to_json(*controller->plan()).size() <= before + 64);
}
