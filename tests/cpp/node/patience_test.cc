// How long a node lets what comes in wait, and that its operations are right meanwhile.
#include "node/operations/patience.h"

#include <doctest/doctest.h>

#include "node/parts.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kTwoSeconds = 5'000'000;  // bytes at the plan's rate

// n0 -> n1 -> n2 at 20 Mbit/s, as a planner fills it in.
Plan slow_plan(double capacity_bps = 20e6) {
  PlanBuilder builder(3);
  builder.add_link(0, 1, capacity_bps);
  builder.add_link(1, 2, capacity_bps);
  builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, 20e6}});
  Plan plan = *builder.build();
  for (PlanLink& link : plan.links) link.load_bps = 20e6;
  return plan;
}

Duration patience_under(const Plan& plan, std::size_t bytes) {
  const InstalledPlan installed(std::make_shared<const Plan>(plan), "n1", std::size_t{64} << 20U);
  return pace_of(*installed.find(CollectiveId(0)), installed.fastest_link_bps(), bytes).patience;
}

OperationKey operation(std::uint32_t number) { return {CollectiveId(0), OperationId(number)}; }

// n1 of a plan with several collectives, each as in slow_plan().
struct Hurry {
  static constexpr std::uint32_t kCollectives = 10;

  Hurry() {
    for (const PlanCollective& planned : installed.plan().collectives)
      alone.node->traffic.add(*installed.find(planned.id));
  }

  static Plan plan() {
    PlanBuilder builder(3);
    builder.add_link(0, 1, kCollectives * 20e6);
    builder.add_link(1, 2, kCollectives * 20e6);
    for (std::uint32_t c = 0; c < kCollectives; ++c) {
      builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, 20e6}});
    }
    Plan plan = *builder.build();
    for (PlanLink& link : plan.links) link.load_bps = link.capacity_bps;
    return plan;
  }

  [[nodiscard]] PlannedPace pace_of(std::uint32_t collective) const {
    PlannedPace pace =
        square::pace_of(*installed.find(CollectiveId(collective)), installed.fastest_link_bps(), kTwoSeconds);
    pace.patience = kMostPatience;
    return pace;
  }
  // So many times what is planned goes by.
  void move(std::uint32_t collective, double times, Duration time = kHasteTime) {
    const PlannedPace pace = pace_of(collective);
    const double bytes = times * pace.load_bps * to_seconds(time) / kBitsPerByte;
    const auto tally = alone.node->traffic.session(pace.sessions.front());
    tally->on_received(static_cast<std::size_t>(bytes / 2));
    tally->on_sent(static_cast<std::size_t>(bytes / 2));
    alone.run(time);
    patience.on_frame();
  }
  [[nodiscard]] const std::vector<Duration>& told() const { return alone.transport.patiences; }

  Alone alone{"n1"};
  InstalledPlan installed{std::make_shared<const Plan>(plan()), "n1", std::size_t{64} << 20U};
  Patience patience{*alone.node};
};

}  // namespace

TEST_CASE("the longer an operation the longer its frames may wait, within bounds") {
  CHECK(patience_under(slow_plan(), kTwoSeconds / 2) == 4ms);
  CHECK(patience_under(slow_plan(), kTwoSeconds) == kMostPatience);
  CHECK(patience_under(slow_plan(), 100 * kTwoSeconds) == kMostPatience);
  CHECK(patience_under(slow_plan(), kTwoSeconds / 5) == Duration(0));  // it would be too short to be of use
  CHECK(patience_under(slow_plan(), 0) == Duration(0));
}

TEST_CASE("nothing waits where a link that the node uses is fast, or has no limit") {
  CHECK(patience_under(slow_plan(200e6), kTwoSeconds) > kLeastPatience);
  CHECK(patience_under(slow_plan(200e6), kTwoSeconds) < kMostPatience);
  CHECK(patience_under(slow_plan(1e9), kTwoSeconds) == Duration(0));
  CHECK(patience_under(slow_plan(kUnlimited), kTwoSeconds) == Duration(0));
  Plan limited = slow_plan(kUnlimited);
  for (PlanNode& node : limited.nodes) node.egress_bps = 20e6;
  CHECK(patience_under(limited, kTwoSeconds) == kMostPatience);
}

TEST_CASE("the least patient operation decides, and the transport hears of changes alone") {
  Alone alone("n1");
  const auto& told = alone.transport.patiences;
  Patience patience(*alone.node);
  patience.begin(operation(1));
  CHECK(told.empty());
  patience.set(operation(1), {8ms});
  CHECK(alone.node->pace_tick == 8ms);  // blocks leave when the node looks anyway
  patience.begin(operation(2));         // no member here has called it
  CHECK(alone.node->pace_tick == kPaceTick);
  patience.set(operation(2), {3ms});
  patience.set(operation(3), {5ms});
  patience.end(operation(2));
  patience.end(operation(2));
  patience.end(operation(1));
  patience.end(operation(3));
  CHECK(told == std::vector<Duration>{8ms, 0ms, 3ms, 5ms, 0ms});
}

TEST_CASE("what a node passes on for others does not wait") {
  Alone alone("n1");
  const auto& told = alone.transport.patiences;
  Patience patience(*alone.node);
  patience.set(operation(1), {8ms});
  patience.on_relayed();
  alone.run(kRelayedTime / 2);
  patience.on_relayed();
  alone.run(kRelayedTime * 3 / 4);
  CHECK(told == std::vector<Duration>{8ms, 0ms});
  alone.run(kRelayedTime);
  CHECK(told == std::vector<Duration>{8ms, 0ms, 8ms});
  patience.end(operation(1));
  patience.on_relayed();
  alone.run(2 * kRelayedTime);
  CHECK(told == std::vector<Duration>{8ms, 0ms, 8ms, 0ms});
}

TEST_CASE("an operation that is faster than planned waits less") {
  Hurry hurry;
  const PlannedPace pace = hurry.pace_of(0);
  CHECK(pace.load_bps == doctest::Approx(2 * 20e6));  // it comes in and goes on
  hurry.patience.set(operation(1), pace);
  hurry.patience.set(operation(2), pace);  // at the same time, at the same rate
  hurry.move(0, 0.5);
  hurry.patience.on_frame();  // too soon to look again
  hurry.move(0, 2);
  hurry.patience.begin(operation(3));
  hurry.move(0, 100);
  hurry.patience.end(operation(3));  // and nothing is told: by then the others are fast
  hurry.move(0, 1);
  hurry.patience.end(operation(1));
  hurry.patience.end(operation(2));
  hurry.move(0, 2);
  CHECK(hurry.told() == std::vector<Duration>{8ms, 4ms, 0ms, 8ms, 0ms});
}

TEST_CASE("of many that are posted the one that moves says how fast") {
  Hurry hurry;
  for (std::uint32_t c = 0; c < Hurry::kCollectives; ++c) {
    hurry.patience.set({CollectiveId(c), OperationId(1)}, hurry.pace_of(c));
  }
  hurry.move(1, 2);
  CHECK(hurry.told() == std::vector<Duration>{8ms, 4ms});
  hurry.move(2, 3);
  CHECK(hurry.told().back() == 2500us);  // in steps
  hurry.move(2, 0);
  CHECK(hurry.told().back() == 8ms);
}

TEST_CASE("short operations that follow one another are measured together") {
  Hurry hurry;
  for (std::uint32_t number = 0; number < 6; ++number) {
    hurry.patience.set(operation(number), hurry.pace_of(0));
    hurry.move(0, 2, kHasteTime / 3);
    hurry.patience.end(operation(number));
  }
  hurry.patience.set(operation(6), hurry.pace_of(0));
  CHECK(hurry.told().back() == 4ms);
}

TEST_CASE("one of many sessions has the capacity that the others leave") {
  constexpr std::size_t kSessions = 100;
  constexpr double kCapacityBps = 50e6;
  PlanBuilder builder(2);
  builder.add_link(0, 1, kCapacityBps);
  for (std::size_t i = 0; i < kSessions; ++i) {
    builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, kCapacityBps / kSessions}});
  }
  Plan plan = *builder.build();
  for (PlanLink& link : plan.links) link.load_bps = kCapacityBps;
  Overlay overlay(2, 4);
  REQUIRE(overlay.publish(std::make_shared<const Plan>(plan)));
  overlay.set_members(CollectiveId(0), {0, 1});
  overlay.run([] { return false; }, 1s);
  std::mt19937_64 random(6);
  constexpr std::size_t kBytes = 3'000'000;
  Broadcast broadcast(CollectiveId(0), {0, 1}, random_bytes(random, kBytes));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  CHECK(to_seconds(broadcast.finished_at.back() - start) < 8.0 * kBytes / kCapacityBps / 0.9);
}

TEST_CASE("frames that wait cost a long broadcast little, and no order") {
  Overlay overlay(3, 3);
  const Plan plan = slow_plan();
  REQUIRE(overlay.publish(std::make_shared<const Plan>(plan)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  overlay.run([] { return false; }, 1s);
  std::mt19937_64 random(5);
  OperationId next(0);
  for (const std::size_t bytes : {kTwoSeconds, std::size_t{10'000}, kTwoSeconds / 2}) {
    Broadcast broadcast(CollectiveId(0), {0, 1, 2}, random_bytes(random, bytes));
    broadcast.operation = next;
    next = OperationId(next.value() + 1);
    const TimePoint start = overlay.simulation.clock().now();
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    REQUIRE(broadcast.is_right());
    const double planned = 8.0 * static_cast<double>(bytes) / 20e6;
    for (const TimePoint end : broadcast.finished_at) {
      CHECK(to_seconds(end - start) < 1.05 * planned + 0.030);
    }
  }
}
