// Groups that members close: what a node remembers of them, and what others hear.
#include <doctest/doctest.h>

#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

std::string label(std::uint32_t group) { return "group/" + std::to_string(group); }

// Broadcasts over a line of three nodes, each of a group of its own, with these numbers.
std::shared_ptr<const Plan> plan_of(std::uint32_t epoch, const std::vector<std::uint32_t>& groups) {
  PlanBuilder builder(3, Epoch(epoch));
  builder.add_link(0, 1, 10 * kMbps);
  builder.add_link(1, 2, 10 * kMbps);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    builder.add_broadcast(0, {0, 2}, {{{{0, 1}, {1, 2}}, 1 * kMbps}});
  }
  Plan plan = *builder.build();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    plan.collectives[i].id = CollectiveId(groups[i]);
    plan.collectives[i].group = label(groups[i]);
    plan.collectives[i].sessions = {SessionId(groups[i])};
    plan.sessions[i].id = SessionId(groups[i]);
    plan.sessions[i].collective = CollectiveId(groups[i]);
  }
  return std::make_shared<const Plan>(std::move(plan));
}

NodeStatistics statistics(Overlay& overlay, std::size_t node) {
  std::optional<NodeStatistics> found;
  overlay.node(node).statistics([&](NodeStatistics now) { found = now; });
  REQUIRE(overlay.run([&] { return found.has_value(); }));
  return *found;
}

void close_on_all(Overlay& overlay, std::uint32_t group) {
  for (const std::size_t node : {0U, 2U}) overlay.node(node).close_group(label(group));
}

Broadcast broadcast_of(std::uint32_t group, std::size_t size = 10'000) {
  return {CollectiveId(group), {0, 2}, std::vector<std::byte>(size, std::byte{7})};
}

}  // namespace

TEST_CASE("2,000 plans with groups that come and go leave nothing at any node") {
  Overlay overlay(seed_from_environment(1), 3);
  constexpr std::uint32_t kPlans = 2'000;
  for (std::uint32_t round = 1; round <= kPlans; ++round) {
    // Each group is in two plans, and is called and closed under the second or never.
    REQUIRE(overlay.publish(plan_of(round, {round, round + 1})));
    overlay.set_members(CollectiveId(round), {0, 2});
    Broadcast called = broadcast_of(round);
    if (round % 3 == 0) {
      called.post_all(overlay);
      REQUIRE(overlay.run([&] { return called.is_over(); }));
      CHECK(called.is_right());
    } else if (round % 3 == 1) {
      // A group that has failed is forgotten as well.
      overlay.node(2).fail(CollectiveId(round), OperationId(0), unavailable("planted"));
      called.post(overlay, 0);
      REQUIRE(overlay.run([&] { return called.outcomes[0].has_value(); }));
      CHECK(called.outcomes[0]->code() == StatusCode::kUnavailable);
    }
    close_on_all(overlay, round);
  }
  REQUIRE(overlay.publish(plan_of(kPlans + 1, {})));
  REQUIRE(overlay.publish(plan_of(kPlans + 2, {})));
  for (std::size_t node = 0; node < 3; ++node) {
    CAPTURE(node);
    CHECK(statistics(overlay, node).collectives == 0);
    CHECK(statistics(overlay, node).sessions == 0);
  }
}

TEST_CASE("calls on a closed group fail at once, and what runs goes on") {
  Overlay overlay(2, 3);
  REQUIRE(overlay.publish(plan_of(1, {5})));
  overlay.set_members(CollectiveId(5), {0, 2});
  Broadcast running = broadcast_of(5, 1'000'000);
  running.post_all(overlay);
  std::optional<Status> watched;
  overlay.node(2).watch(CollectiveId(5), OperationId(7), std::chrono::hours(1),
                        [&](Status outcome) { watched = std::move(outcome); });
  close_on_all(overlay, 5);
  Broadcast late = broadcast_of(5);
  late.operation = OperationId(1);
  late.post_all(overlay);
  REQUIRE(overlay.run([&] { return late.is_over() && watched; }, std::chrono::milliseconds(100)));
  for (const auto& outcome : late.outcomes) CHECK(outcome->code() == StatusCode::kFailedPrecondition);
  CHECK(late.outcomes[0]->message().find("closed on node \"n0\"") != std::string::npos);
  CHECK(watched->code() == StatusCode::kFailedPrecondition);
  REQUIRE(overlay.run([&] { return running.is_over(); }));
  CHECK(running.is_right());
  // Also what ends after its plan has gone.
  REQUIRE(overlay.publish(plan_of(2, {})));
  REQUIRE(overlay.publish(plan_of(3, {})));
  CHECK(statistics(overlay, 0).collectives == 0);
  CHECK(statistics(overlay, 2).collectives == 0);
}

TEST_CASE(
    "a group that cannot be planned any more fails with the reason, what runs and what is called next") {
  Overlay overlay(2, 3);
  REQUIRE(overlay.publish(plan_of(1, {5, 6})));
  overlay.set_members(CollectiveId(5), {0, 2});
  overlay.set_members(CollectiveId(6), {0, 2});
  Broadcast running = broadcast_of(5, 1'000'000);
  running.post_all(overlay);
  Broadcast other = broadcast_of(6, 100'000);
  other.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::milliseconds(50));
  for (const std::size_t node : {0U, 2U})
    overlay.node(node).set_unplanned({CollectiveId(5), CollectiveId(77)}, "no plan has it: too heavy");
  REQUIRE(overlay.publish(plan_of(2, {6})));
  Broadcast late = broadcast_of(5);
  late.operation = OperationId(1);
  late.post_all(overlay);
  REQUIRE(overlay.run([&] { return running.is_over() && late.is_over(); }, std::chrono::seconds(1)));
  for (const Broadcast* call : {&running, &late}) {
    for (const auto& outcome : call->outcomes) {
      CHECK(outcome->code() == StatusCode::kFailedPrecondition);
      CHECK(outcome->message().find("no plan has it: too heavy") != std::string::npos);
    }
  }
  REQUIRE(overlay.run([&] { return other.is_over(); }));
  CHECK(other.is_right());
  close_on_all(overlay, 5);
  REQUIRE(overlay.publish(plan_of(3, {6})));
  CHECK(statistics(overlay, 0).collectives == 1);
}

TEST_CASE("what others begin with a node that has closed the group fails there, before it closed or after") {
  for (const bool is_begun_before : {true, false}) {
    CAPTURE(is_begun_before);
    Overlay overlay(3, 3);
    REQUIRE(overlay.publish(plan_of(1, {5})));
    overlay.set_members(CollectiveId(5), {0, 2});
    Broadcast alone = broadcast_of(5, 100'000);
    if (!is_begun_before) overlay.node(2).close_group(label(5));
    alone.post(overlay, 0);
    overlay.run([] { return false; }, std::chrono::milliseconds(200));
    if (is_begun_before) overlay.node(2).close_group(label(5));
    REQUIRE(overlay.run([&] { return alone.outcomes[0].has_value(); }, std::chrono::seconds(2)));
    CHECK(alone.outcomes[0]->code() == StatusCode::kFailedPrecondition);
    CHECK(alone.outcomes[0]->message().find("closed on node \"n2\"") != std::string::npos);
  }
}

TEST_CASE("calls about collectives that no plan knows leave nothing") {
  Overlay overlay(4, 3);
  REQUIRE(overlay.publish(plan_of(1, {5})));
  for (std::uint32_t id = 100; id < 200; ++id) {
    Broadcast unknown = broadcast_of(id);
    unknown.post(overlay, 0);
    REQUIRE(overlay.run([&] { return unknown.outcomes[0].has_value(); }));
    CHECK(unknown.outcomes[0]->code() == StatusCode::kNotFound);
    overlay.node(0).fail(CollectiveId(id), OperationId(0), unavailable("nobody"));
    overlay.node(0).cancel(CollectiveId(id), OperationId(0));
    overlay.node(0).watch(CollectiveId(id), OperationId(0), std::chrono::milliseconds(1),
                          [](const Status&) {});
  }
  CHECK(statistics(overlay, 0).collectives == 1);
}

TEST_CASE(
    "a group's first operation does not wait for credit that was lost because its head had the plan first") {
  Overlay overlay(5, 3);
  REQUIRE(overlay.publish(plan_of(1, {1})));
  overlay.set_members(CollectiveId(1), {0, 2});
  Broadcast first = broadcast_of(1);
  first.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over(); }));
  // The links are up. The last node of the line installs the next plan before the others.
  for (const std::size_t node : {2U, 1U, 0U}) {
    bool installed = false;
    overlay.node(node).install_plan(plan_of(2, {1, 2}), [&](Epoch) { installed = true; });
    REQUIRE(overlay.run([&] { return installed; }));
    overlay.run([] { return false; }, std::chrono::milliseconds(50));
  }
  for (const std::size_t node : {0U, 1U, 2U}) overlay.node(node).activate_plan(Epoch(2));
  overlay.set_members(CollectiveId(2), {0, 2});
  Broadcast second = broadcast_of(2, 100);
  const TimePoint called = overlay.simulation.clock().now();
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return second.is_over(); }));
  CHECK(second.is_right());
  CHECK(overlay.simulation.clock().now() - called < std::chrono::milliseconds(100));
}
