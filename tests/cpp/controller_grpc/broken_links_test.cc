// Broken links, from a node's report to the plan.
#include <algorithm>

#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;
using Kind = FakeNode::Event::Kind;
using Events = std::vector<FakeNode::Event>;

namespace {

// Whether the plan that was activated last carries anything over the link, and whether it was to be moved to.
struct Active {
  std::shared_ptr<const Plan> plan;
  bool moves = false;

  [[nodiscard]] bool uses(const std::string& from, const std::string& to) const {
    const auto is_it = [&](const auto& link) {
      return plan->nodes[link.first.index()].name == from && plan->nodes[link.second.index()].name == to;
    };
    return std::ranges::any_of(plan->sessions, [&](const PlanSession& session) {
      return std::ranges::any_of(session.streams, [&](const PlanStream& stream) {
        return std::ranges::any_of(stream.links, is_it);
      });
    });
  }
};

Active active_of(const Events& events) {
  Active active;
  for (const auto& event : events) {
    if (event.kind != Kind::kActivate) continue;
    const auto plan = std::ranges::find_if(
        events, [&](const auto& other) { return other.kind == Kind::kPlan && other.epoch == event.epoch; });
    REQUIRE(plan != events.end());
    active = {plan->plan, event.text == "moves"};
  }
  return active;
}

bool waits_for_use(FakeNode& node, bool is_used) {
  return node.wait_for([&](const Events& events) {
    const Active active = active_of(events);
    return active.plan && !active.plan->sessions.empty() && active.uses("a", "b") == is_used;
  });
}

}  // namespace

TEST_CASE("a link that is reported broken leaves the plan, what runs moves, and it is used again") {
  const std::vector<std::string> names{"a", "b", "c"};
  ControllerOptions options;
  auto controller = start(mesh(names));
  options.bind_address = controller->address();
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  const auto c = FakeNode::join(*controller, "c");
  REQUIRE(a->client().register_group(broadcast_group("g", names), kPatience).is_ok());
  REQUIRE(waits_for_use(*c, true));
  a->client().report_broken_links({.broken = {"b"}});
  REQUIRE(waits_for_use(*c, false));
  CHECK(active_of(c->events()).moves);
  a->client().report_broken_links({});
  REQUIRE(waits_for_use(*c, true));
  CHECK_FALSE(active_of(c->events()).moves);

  // The next controller is told.
  a->client().report_broken_links({.broken = {"b"}});
  REQUIRE(waits_for_use(*c, false));
  controller->stop();
  controller.reset();
  const auto losses = [](const Events& events) {
    return std::ranges::count_if(events, [](const auto& event) { return event.kind == Kind::kLost; });
  };
  REQUIRE(c->wait_for([&](const Events& events) { return losses(events) == 1; }));
  controller = start(mesh(names), options);
  REQUIRE(eventually([&] {
    const auto plan = controller->plan();
    return plan && !plan->sessions.empty() && !Active{plan}.uses("a", "b");
  }));
  a->client().report_broken_links({});
  REQUIRE(eventually([&] {
    const auto plan = controller->plan();
    return plan && !plan->sessions.empty() && Active{plan}.uses("a", "b");
  }));
}

TEST_CASE("a node that has not come is planned around when another has looked for it in vain") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  REQUIRE(a->client().register_group(broadcast_group("g", {"a", "b"}), kPatience).is_ok());
  const auto uses_c = [&] {
    const Active active{controller->plan()};
    return active.uses("a", "c") && active.uses("c", "b");
  };
  CHECK(uses_c());
  a->client().report_broken_links({.broken = {"c"}});
  CHECK(eventually([&] { return !uses_c(); }));
  const auto c = FakeNode::join(*controller, "c");
  a->client().report_broken_links({});
  CHECK(eventually(uses_c));
}
