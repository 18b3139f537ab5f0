// What a failure does to everybody else.
#include <doctest/doctest.h>

#include "node/links/neighbours.h"
#include "node/sum_plans.h"

using namespace square;
using namespace square::test;

namespace {

// Longer than a node waits for a member's link.
constexpr Duration kMaxReturn = std::chrono::seconds(4);

std::shared_ptr<const Plan> star_plan() {
  PlanBuilder builder(3);
  builder.add_link(0, 1, 10 * kMbps);
  builder.add_link(0, 2, 10 * kMbps);
  builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {0, 2}}, 10 * kMbps}});
  return builder.build();
}

}  // namespace

TEST_CASE("aborts end also where the trees of a session form cycles") {
  Overlay overlay(1, 4);
  PlanBuilder builder(4);
  builder.add_broadcast(0, {0, 1, 2, 3},
                        {{{{0, 1}, {1, 2}, {2, 3}}, kMbps},
                         {{{0, 2}, {2, 3}, {3, 1}}, kMbps},
                         {{{0, 3}, {3, 1}, {1, 2}}, kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
  pass(overlay, std::chrono::seconds(1));
  const std::uint64_t before = overlay.simulation.frames_delivered();
  overlay.transport(3).stop();  // nothing runs: its neighbours tell one another all the same
  pass(overlay, std::chrono::seconds(10));
  CHECK(overlay.simulation.frames_delivered() - before < 200);
}

TEST_CASE("a member that has called but received nothing learns that its link died") {
  Overlay overlay(2, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(1'000));
  broadcast.post(overlay, 1);  // the source has not called yet
  pass(overlay, std::chrono::seconds(1));
  overlay.transport(0).stop();
  REQUIRE(overlay.run([&] { return broadcast.outcomes[1].has_value(); }, std::chrono::seconds(5)));
  CHECK(broadcast.outcomes[1]->code() == StatusCode::kUnavailable);
}

TEST_CASE("a relay that is gone ends nothing: what runs moves to a plan without it") {
  const auto plan = [](std::uint32_t relay, Epoch epoch) {
    PlanBuilder builder(5, epoch);
    for (const std::uint32_t member : {0U, 1U, 2U}) {
      builder.add_link(member, relay, 10 * kMbps);
      builder.add_link(relay, member, 10 * kMbps);
    }
    const int hub = static_cast<int>(relay);
    builder.add_broadcast(0, {0, 1, 2}, {{{{0, hub}, {hub, 1}, {hub, 2}}, 5 * kMbps}});
    builder.add_all_reduce({0, 1, 2}, {{0,
                                        1'000,
                                        {{{{1, hub}, {2, hub}, {hub, 0}}, 5 * kMbps}},
                                        {{{{0, hub}, {hub, 1}, {hub, 2}}, 5 * kMbps}}}});
    return builder.build();
  };
  Overlay overlay(7, 5);
  REQUIRE(overlay.publish(plan(3, Epoch(1))));
  for (const std::uint32_t collective : {0U, 1U}) overlay.set_members(CollectiveId(collective), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(2'000'000));
  std::mt19937_64 random(5);
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < 3; ++rank) inputs.push_back(whole_floats(random, 500'000));
  Sum sum(CollectiveId(1), {0, 1, 2}, std::move(inputs));
  broadcast.post_all(overlay);
  sum.post_all(overlay);
  pass(overlay, std::chrono::seconds(1));
  overlay.transport(3).stop();
  pass(overlay, std::chrono::seconds(1));
  CHECK_FALSE(broadcast.is_over());
  REQUIRE(overlay.publish(plan(4, Epoch(2)), true));
  REQUIRE(overlay.run([&] { return broadcast.is_over() && sum.is_over(); }, std::chrono::seconds(30)));
  CHECK(broadcast.is_right());
  CHECK(sum.is_right());
}

namespace {

// As `exact` plans six sites of which nothing is known: each share over one or two of the others.
std::shared_ptr<const Plan> open_mesh_plan() {
  PlanBuilder builder(6);
  const auto star = [](int root, int hub) {
    std::vector<std::pair<int, int>> up;
    for (int node = 0; node < 6; ++node) {
      if (node != root && node != hub) up.emplace_back(node, hub);
    }
    up.emplace_back(hub, root);
    return up;
  };
  const auto down = [](std::vector<std::pair<int, int>> up) {
    std::ranges::reverse(up);
    for (auto& [from, to] : up) std::swap(from, to);
    return up;
  };
  for (std::uint32_t from = 0; from < 6; ++from) {
    for (std::uint32_t to = 0; to < 6; ++to) {
      if (from != to) builder.add_link(from, to, kUnlimited);
    }
  }
  const auto share = [&](int root, std::uint64_t bytes, const std::vector<int>& hubs) {
    PlanBuilder::Share made{static_cast<std::uint32_t>(root), bytes, {}, {}};
    for (const int hub : hubs) {
      made.up.emplace_back(star(root, hub), 500e6);
      made.down.emplace_back(down(star(root, hub)), 500e6);
    }
    return made;
  };
  builder.add_all_reduce({0, 1, 2, 3, 4, 5}, {share(0, 1'333'333, {2, 3}), share(3, 666'666, {4}),
                                              share(4, 666'667, {5}), share(5, 1'333'334, {0, 1})});
  return builder.build();
}

}  // namespace

TEST_CASE("an all-reduce goes on within a second when the lines of a node are back") {
  constexpr auto kOutage = std::chrono::milliseconds(1350);
  // How long it takes, in seconds, if all lines of that node are cut after so long.
  const auto run = [&](std::uint64_t seed, std::optional<std::size_t> node, Duration after) {
    Overlay overlay(seed, 6);
    REQUIRE(overlay.publish(open_mesh_plan()));
    const std::vector<std::uint32_t> all{0, 1, 2, 3, 4, 5};
    overlay.set_members(CollectiveId(0), all);
    Sum sum(CollectiveId(0), all, inputs_of(seed, 6, 1'000'000));
    std::mt19937_64 random(seed);
    const TimePoint start = overlay.simulation.clock().now();
    sum.post_all(overlay);
    const auto set_cut = [&](bool is_cut) {
      for (std::size_t other = 0; other < 6; ++other) {
        if (!node || other == *node) continue;
        overlay.set_cut(*node, other, is_cut);
        if (is_cut) pass(overlay, std::chrono::milliseconds(random() % 60));
        overlay.set_cut(other, *node, is_cut);
      }
    };
    pass(overlay, after);
    set_cut(true);
    pass(overlay, kOutage);
    set_cut(false);
    REQUIRE(overlay.run([&] { return sum.is_over(); }));
    CHECK(sum.is_right());
    return to_seconds(overlay.simulation.clock().now() - start);
  };
  const double undisturbed = run(1, std::nullopt, Duration(0));
  for (std::uint64_t seed = 1; seed <= 40; seed += kSeedStep) {
    CAPTURE(seed);
    const Duration after = from_seconds(undisturbed * static_cast<double>(seed) / 40);
    // The cuts take 0.3 s at most, and it is half a second until somebody dials and is answered.
    CHECK(run(seed, seed % 6, after) < undisturbed + to_seconds(kOutage) + 0.3 + 0.5 + 1.0);
  }
}

TEST_CASE("an operation that the plan no longer knows fails by name, and holds up no other plan") {
  Overlay overlay(7, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(100'000));
  broadcast.timeout = std::chrono::minutes(3);
  broadcast.post(overlay, 0);  // the others never call
  pass(overlay, std::chrono::seconds(1));
  REQUIRE(overlay.publish(PlanBuilder(3, Epoch(2)).build()));
  const TimePoint asked = overlay.simulation.clock().now();
  REQUIRE(overlay.publish(PlanBuilder(3, Epoch(3)).build()));
  CHECK(overlay.simulation.clock().now() - asked < std::chrono::seconds(2));
  REQUIRE(broadcast.outcomes[0].has_value());
  CHECK(broadcast.outcomes[0]->code() == StatusCode::kNotFound);
  CHECK(
      broadcast.outcomes[0]->message() ==
      "plan 2 no longer knows collective 0: its group has ended, or went on without a member that was away");
}

TEST_CASE("who the controller says is gone is, once this node does not hear it any more") {
  Overlay overlay(2, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(100'000));
  broadcast.post(overlay, 0);
  pass(overlay, std::chrono::seconds(1));
  CHECK(overlay.node(0).heard() == std::vector<std::string>{"n1", "n2"});
  overlay.node(0).set_gone("n1", "nobody has heard of it");
  pass(overlay, std::chrono::seconds(1));
  CHECK_FALSE(broadcast.outcomes[0]);
  overlay.set_cut(1, 0, true);
  overlay.set_cut(0, 1, true);
  REQUIRE(overlay.run([&] { return broadcast.outcomes[0].has_value(); }, std::chrono::seconds(1)));
  CHECK(broadcast.outcomes[0]->message() == "node \"n1\" is gone: nobody has heard of it");
}

TEST_CASE("what a member that leaves had finished comes to its end without it") {
  for (const bool in_order : {false, true}) {
    CAPTURE(in_order);
    Overlay overlay(2, 3);
    REQUIRE(overlay.publish(star_plan()));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    // What goes to the third comes late, and so does what it answers.
    LinkConditions far = overlay.simulation.conditions("n0", "n2");
    far.delay = std::chrono::milliseconds(700);
    overlay.simulation.set_conditions("n0", "n2", far);
    pass(overlay, std::chrono::seconds(3));
    Broadcast first(CollectiveId(0), {0, 1, 2}, payload(10'000));
    first.post_all(overlay);
    REQUIRE(overlay.run([&] { return first.outcomes[1].has_value(); }, std::chrono::milliseconds(500)));
    bool is_drained = false;
    overlay.node(1).stop([&] { is_drained = true; });
    REQUIRE(overlay.run([&] { return is_drained; }, std::chrono::milliseconds(400)));
    std::optional<FinishedOperations> finished;
    if (in_order) overlay.node(1).finished([&](FinishedOperations all) { finished = std::move(all); });
    pass(overlay, Duration(0));
    for (const std::uint32_t node : {0U, 2U}) overlay.node(node).set_gone("n1", "it left", finished);
    overlay.transport(1).stop();
    REQUIRE(overlay.run([&] { return first.outcomes[0] && first.outcomes[2]; }, std::chrono::seconds(5)));
    CHECK(first.is_right() == in_order);
    // What it has no part in any more.
    Broadcast second(CollectiveId(0), {0, 1, 2}, payload(1'000));
    second.operation = OperationId(1);
    second.post(overlay, 0);
    second.post(overlay, 2);
    REQUIRE(overlay.run([&] { return second.outcomes[0] && second.outcomes[2]; }, std::chrono::seconds(1)));
    if (in_order) CHECK(second.outcomes[0]->message() == "node \"n1\" is gone: it left");
  }
}

TEST_CASE(
    "a member may call later what another one had finished when it left, and nobody waits for its last "
    "word") {
  for (const bool is_last_word_lost : {false, true}) {
    CAPTURE(is_last_word_lost);
    Overlay overlay(2, 3);
    REQUIRE(overlay.publish(star_plan()));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    pass(overlay, std::chrono::seconds(1));
    LinkConditions back = overlay.simulation.conditions("n1", "n0");
    if (is_last_word_lost) back.delay = std::chrono::seconds(30);
    overlay.simulation.set_conditions("n1", "n0", back);
    Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(10'000));
    broadcast.post(overlay, 0);
    broadcast.post(overlay, 1);
    REQUIRE(overlay.run([&] { return broadcast.outcomes[1].has_value(); }, std::chrono::seconds(2)));
    FinishedOperations finished;
    overlay.node(1).stop(
        [&] { overlay.node(1).finished([&](FinishedOperations all) { finished = std::move(all); }); });
    REQUIRE(overlay.run([&] { return !finished.empty(); }, DataPlane::kDrainTime));
    overlay.transport(1).stop();
    for (const std::uint32_t node : {0U, 2U}) overlay.node(node).set_gone("n1", "it left", finished);
    pass(overlay, kLeaveGrace / 2);
    CHECK_FALSE(broadcast.outcomes[0]);
    broadcast.post(overlay, 2);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }, std::chrono::seconds(2)));
    CHECK(broadcast.is_right());
  }
}

TEST_CASE("a member that stops still passes on what others confirm") {
  Overlay overlay(2, 3);
  PlanBuilder builder(3);
  builder.add_link(0, 1, 10 * kMbps);
  builder.add_link(1, 2, 10 * kMbps);
  builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  LinkConditions far = overlay.simulation.conditions("n1", "n2");
  far.delay = std::chrono::milliseconds(50);
  overlay.simulation.set_conditions("n1", "n2", far);
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(1'000));
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.outcomes[1].has_value(); }));
  CHECK_FALSE(broadcast.outcomes[2]);
  const TimePoint begun = overlay.simulation.clock().now();
  bool is_drained = false;
  overlay.node(1).stop([&] { is_drained = true; });
  REQUIRE(overlay.run([&] { return is_drained; }, DataPlane::kDrainTime));
  overlay.transport(1).stop();
  pass(overlay, std::chrono::milliseconds(50));
  CHECK(broadcast.is_over());
  CHECK(broadcast.is_right());
  CHECK(overlay.simulation.clock().now() - begun < DataPlane::kDrainTime);
}

TEST_CASE("an operation that is called after a member's link was lost does not wait for its timeout") {
  for (const std::uint32_t victim : {0U, 1U}) {
    CAPTURE(victim);
    Overlay overlay(2, 3);
    REQUIRE(overlay.publish(star_plan()));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    Broadcast first(CollectiveId(0), {0, 1, 2}, payload(1'000));
    first.post_all(overlay);
    REQUIRE(overlay.run([&] { return first.is_over(); }));
    overlay.transport(victim).stop();
    pass(overlay, kMaxReturn);  // nothing runs: nobody fails
    Broadcast second(CollectiveId(0), {0, 1, 2}, payload(1'000));
    second.operation = OperationId(1);
    const TimePoint called = overlay.simulation.clock().now();
    second.post_all(overlay);
    REQUIRE(overlay.run([&] { return second.outcomes[victim == 0 ? 1 : 0] && second.outcomes[2]; }));
    CHECK(overlay.simulation.clock().now() - called < kMaxReturn);
    for (const std::uint32_t rank : {0U, 1U, 2U}) {
      if (rank == victim) continue;
      CHECK(second.outcomes[rank]->code() == StatusCode::kUnavailable);
      CHECK(second.outcomes[rank]->message().find('"' + node_name(victim) + '"') != std::string::npos);
    }
  }
}

TEST_CASE("a sum that is called after the root's node died does not wait for its timeout") {
  for (const bool has_run : {false, true}) {
    CAPTURE(has_run);
    Overlay overlay(2, 2);
    PlanBuilder builder(2);
    builder.add_link(0, 1, 10 * kMbps);
    builder.add_link(1, 0, 10 * kMbps);
    builder.add_all_reduce({0, 1}, {{1, 1'000, {{{{0, 1}}, 8 * kMbps}}, {{{{1, 0}}, 8 * kMbps}}}});
    REQUIRE(overlay.publish(builder.build()));
    overlay.set_members(CollectiveId(0), {0, 1, 0});
    pass(overlay, std::chrono::seconds(1));
    const std::vector<std::vector<float>> inputs(3, std::vector<float>(1'000, 1.0F));
    std::uint64_t next = 0;
    if (has_run) {
      Sum first(CollectiveId(0), {0, 1, 0}, inputs);
      first.operation = OperationId(next++);
      first.post_all(overlay);
      REQUIRE(overlay.run([&] { return first.is_over(); }));
      REQUIRE(first.is_right());
    }
    overlay.transport(1).stop();
    pass(overlay, std::chrono::milliseconds(10));
    Sum sum(CollectiveId(0), {0, 1, 0}, inputs);
    sum.operation = OperationId(next);
    const TimePoint called = overlay.simulation.clock().now();
    sum.post(overlay, 0);
    sum.post(overlay, 2);
    REQUIRE(overlay.run([&] { return sum.outcomes[0] && sum.outcomes[2]; }));
    CHECK(overlay.simulation.clock().now() - called < kMaxReturn);
    CHECK(sum.outcomes[0]->code() == StatusCode::kUnavailable);
    CHECK(sum.outcomes[0]->message().find("\"n1\"") != std::string::npos);
    CHECK(sum.outcomes[2]->code() == StatusCode::kUnavailable);
  }
}

TEST_CASE("an operation that is called while a link is lost goes on when the link comes back") {
  Overlay overlay(2, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  for (std::uint16_t operation = 0; operation < 3; ++operation) {
    Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(100'000));
    broadcast.operation = OperationId(operation);
    if (operation > 0) {
      overlay.restart(1, operation);  // counts no operations as a source would
      pass(overlay, std::chrono::milliseconds(30));
      broadcast.post(overlay, 0);  // before node 0 has its link again
      REQUIRE(overlay.publish(star_plan()));
      overlay.set_members(CollectiveId(0), {0, 1, 2});
      broadcast.post(overlay, 1);
      broadcast.post(overlay, 2);
    } else {
      broadcast.post_all(overlay);
    }
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }, std::chrono::seconds(20)));
    for (const auto& outcome : broadcast.outcomes) CHECK_MESSAGE(outcome->is_ok(), outcome->to_string());
    pass(overlay, kMaxReturn);
  }
}

TEST_CASE("operations that were called before an earlier one failed fail with it") {
  Overlay overlay(3, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast first(CollectiveId(0), {0, 1, 2}, payload(100'000));
  Broadcast second(CollectiveId(0), {0, 1, 2}, payload(100'000));
  second.operation = OperationId(1);
  first.buffers[2].resize(1);
  first.post_all(overlay);
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over() && second.is_over(); }, std::chrono::seconds(5)));
  for (const auto& outcome : second.outcomes) CHECK_FALSE(outcome->is_ok());
}

TEST_CASE("a part that is called after another part of its call failed fails for the same reason") {
  PlanBuilder builder(3);
  for (const std::uint32_t to : {0U, 1U}) builder.add_link(2, to, 80e6);
  for (const std::uint32_t to : {0U, 1U}) builder.add_broadcast(2, {2, to}, {{{{2, to}}, 40e6}});
  Overlay overlay(1, 3);
  REQUIRE(overlay.publish(builder.build()));
  for (const std::uint32_t node : {0U, 1U, 2U}) {
    for (const std::uint32_t to : {0U, 1U}) {
      if (node == 2 || node == to)
        overlay.node(node).set_members(CollectiveId(to), "group", {Rank(node == 2 ? 0 : 1)});
    }
  }
  Broadcast first(CollectiveId(0), {2, 0}, payload(10'000));
  Broadcast second(CollectiveId(1), {2, 1}, payload(10'000));
  first.group_call = second.group_call = {CallKind::kAllToAll, 3};
  first.buffers[1].resize(1);
  first.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over(); }, std::chrono::seconds(5)));
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return second.is_over(); }, std::chrono::seconds(5)));
  CHECK(second.outcomes[0] == first.outcomes[0]);
  Broadcast next(CollectiveId(1), {2, 1}, payload(10'000));
  next.operation = OperationId(1);
  next.group_call = {CallKind::kAllToAll, 4};
  next.post_all(overlay);
  REQUIRE(overlay.run([&] { return next.is_over(); }, std::chrono::seconds(5)));
  CHECK(next.outcomes[0]->code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a source that was restarted and counts from 0 again is not told that all is done") {
  const std::uint32_t kFirst = DataPlaneOptions{}.incarnation;
  // The second differs in the upper bits alone.
  for (const std::uint32_t incarnation : {std::uint32_t{77}, kFirst + (std::uint32_t{1} << 16U)}) {
    CAPTURE(incarnation);
    Overlay overlay(4, 3);
    REQUIRE(overlay.publish(star_plan()));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    Broadcast first(CollectiveId(0), {0, 1, 2}, payload(1'000));
    first.post_all(overlay);
    REQUIRE(overlay.run([&] { return first.is_over(); }));
    REQUIRE(first.is_right());
    overlay.restart(0, incarnation);
    REQUIRE(overlay.publish(star_plan()));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    pass(overlay, std::chrono::seconds(2));
    Broadcast again(CollectiveId(0), {0, 1, 2}, payload(2'000));
    again.post(overlay, 0);
    REQUIRE(overlay.run([&] { return again.outcomes[0].has_value(); }, std::chrono::seconds(10)));
    CHECK(again.outcomes[0]->code() == StatusCode::kFailedPrecondition);
    CHECK(again.outcomes[0]->message().find("restarted") != std::string::npos);
  }
}

TEST_CASE("nobody waits for a member that ended between two calls, though another process has its name") {
  Overlay overlay(4, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  for (const std::size_t other : {0U, 1U})
    overlay.node(other).set_address("n2", overlay.transport(2).address(), 1);
  Broadcast first(CollectiveId(0), {0, 1, 2}, payload(1'000));
  first.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over(); }));
  overlay.restart(2, 77);
  for (const std::size_t other : {0U, 1U})
    overlay.node(other).set_address("n2", overlay.transport(2).address(), 2);
  Broadcast next(CollectiveId(0), {0, 1, 2}, payload(1'000));
  next.operation = OperationId(1);
  for (const std::uint32_t rank : {0U, 1U}) next.post(overlay, rank);
  REQUIRE(overlay.run([&] { return next.outcomes[0] && next.outcomes[1]; }, std::chrono::seconds(1)));
  for (const std::size_t rank : {0U, 1U})
    CHECK(next.outcomes[rank]->message().find("\"n2\" was restarted") != std::string::npos);
}

TEST_CASE("a call that the plan gives no part to is refused") {
  Overlay overlay(5, 3);
  REQUIRE(overlay.publish(star_plan()));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast wrong(CollectiveId(0), {0, 1, 2}, payload(10), 1);  // the session starts at n0
  wrong.post(overlay, 1);
  REQUIRE(overlay.run([&] { return wrong.outcomes[1].has_value(); }, std::chrono::seconds(5)));
  CHECK(wrong.outcomes[1]->code() == StatusCode::kInvalidArgument);
}

TEST_CASE("two operations of one session under way at once resend nothing") {
  Overlay overlay(6, 3);
  PlanBuilder builder(3);
  builder.add_broadcast(0, {0, 2}, {{{{0, 2}}, 2 * kMbps}, {{{0, 1}, {1, 2}}, 18 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 2});
  std::vector<std::unique_ptr<Broadcast>> broadcasts;
  for (std::uint64_t number = 0; number < 6; ++number) {
    broadcasts.push_back(
        std::make_unique<Broadcast>(CollectiveId(0), std::vector<std::uint32_t>{0, 2}, payload(150'000)));
    broadcasts.back()->operation = OperationId(number);
    broadcasts.back()->post_all(overlay);
  }
  REQUIRE(overlay.run(
      [&] { return std::ranges::all_of(broadcasts, [](const auto& b) { return b->is_over(); }); }));
  CHECK(std::ranges::all_of(broadcasts, [](const auto& b) { return b->is_right(); }));
  std::optional<NodeStatistics> source;
  overlay.node(0).statistics([&](NodeStatistics now) { source = now; });
  REQUIRE(overlay.run([&] { return source.has_value(); }));
  CHECK(source->blocks_resent == 0);
}
