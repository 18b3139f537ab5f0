// Neighbours that fall silent and speak again: nobody is given up, and what they hold up goes other ways.
#include <doctest/doctest.h>

#include "node/overlay.h"
#include "square/metrics.h"

using namespace square;
using namespace square::test;

namespace {

constexpr Duration kStall = std::chrono::seconds(3);
// A second, the look that notices, and what another node hears of it later.
constexpr Duration kNoticed = std::chrono::milliseconds(1500);

// From n0 to n2 at 10 Mbit/s directly, and as much through n1.
std::shared_ptr<const Plan> two_ways_round(Epoch epoch = Epoch(1)) {
  PlanBuilder builder(3, epoch);
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 10 * kMbps);
  }
  builder.add_broadcast(0, {0, 2}, {{{{0, 2}}, 10 * kMbps}, {{{0, 1}, {1, 2}}, 10 * kMbps}});
  return builder.build();
}

// By n0.
std::uint64_t blocks_resent(Overlay& overlay) {
  std::optional<NodeMetrics> metrics;
  overlay.node(0).metrics([&](NodeMetrics now) { metrics = std::move(now); });
  REQUIRE(overlay.run([&] { return metrics.has_value(); }));
  return metrics->totals.blocks_resent;
}

struct TwoWays {
  explicit TwoWays(std::uint64_t seed) : overlay(seed, 3) {
    REQUIRE(overlay.publish(two_ways_round()));
    overlay.set_members(CollectiveId(0), {0, 2});
  }
  // Begins a broadcast; it takes a second over both ways if not said otherwise.
  Broadcast& begin(std::size_t bytes = 2'500'000, Duration timeout = std::chrono::seconds(400)) {
    std::mt19937_64 random(5);
    broadcasts.push_back(std::make_unique<Broadcast>(CollectiveId(0), std::vector<std::uint32_t>{0, 2},
                                                     random_bytes(random, bytes)));
    broadcasts.back()->operation = OperationId(broadcasts.size() - 1);
    broadcasts.back()->timeout = timeout;
    broadcasts.back()->post_all(overlay);
    begun = overlay.simulation.clock().now();
    return *broadcasts.back();
  }
  // How long the last one took.
  double seconds() {
    Broadcast& last = *broadcasts.back();
    REQUIRE(overlay.run([&] { return last.is_over(); }, std::chrono::seconds(60)));
    CHECK(last.is_right());
    return to_seconds(std::ranges::max(last.finished_at) - begun);
  }
  void pass(Duration time) {
    overlay.run([] { return false; }, time);
  }
  // Nobody suspects for the time.
  void expect_trust(Duration time, Duration longest = Duration(0)) {
    constexpr Duration kStep = std::chrono::milliseconds(20);
    Duration silent{0};
    // The clock stands still where nothing happens.
    const TimePoint start = overlay.simulation.clock().now();
    for (Duration passed = kStep; passed <= time; passed += kStep) {
      overlay.simulation.run_until([] { return false; }, start + passed);
      silent = overlay.node(0).heard().size() == 2 ? Duration(0) : silent + kStep;
      REQUIRE(silent <= longest);
    }
  }

  Overlay overlay;
  std::vector<std::unique_ptr<Broadcast>> broadcasts;
  TimePoint begun{};
};

}  // namespace

TEST_CASE("what a stalled link holds up goes the other way, and the link is used again") {
  for (std::uint64_t seed = 1; seed <= 5; seed += kSeedStep) {
    CAPTURE(seed);
    TwoWays test(seed);
    test.begin();
    const double undisturbed = test.seconds();
    CHECK(undisturbed < 1.2);
    test.begin();
    test.pass(std::chrono::milliseconds(300));
    test.overlay.set_stalled(0, 1, true);
    // After it was noticed the other way carries all that is left, which is half a second's at most; and the
    // source waits half a second for what the link still holds of its buffer.
    CHECK(test.seconds() < 0.3 + to_seconds(kNoticed) + 0.5 + 0.5);
    CHECK(test.overlay.node(0).heard().size() < 2);
    test.overlay.set_stalled(0, 1, false);
    test.pass(kStall);
    test.begin();
    CHECK(test.seconds() < undisturbed + 0.1);
    CHECK(test.overlay.node(0).heard().size() == 2);
  }
}

TEST_CASE("who has succeeded waits for its buffers no longer than its timeout") {
  constexpr Duration kMoment = std::chrono::milliseconds(50);
  // When the destination and the source return, whose buffer a stalled link shows.
  const auto ends = [](Duration timeout) {
    TwoWays test(3);
    const Broadcast& one = test.begin(2'500'000, timeout);
    test.pass(std::chrono::milliseconds(300));
    test.overlay.set_stalled(0, 1, true);
    test.seconds();
    return std::pair(one.finished_at[1] - test.begun, one.finished_at[0] - test.begun);
  };
  const auto [received, released] = ends(std::chrono::seconds(60));
  REQUIRE(released > received + 4 * kMoment);
  CHECK(ends(received + kMoment).second < received + 2 * kMoment);
}

TEST_CASE("a second silence on a link is noticed as soon as the first, whatever was before") {
  for (const Duration round_trip :
       {Duration(std::chrono::milliseconds(2)), Duration(std::chrono::milliseconds(98))}) {
    for (std::uint64_t seed = 1; seed <= 3; seed += kSeedStep) {
      CAPTURE(seed);
      TwoWays test(seed);
      LinkConditions line;
      line.delay = round_trip / 2;
      test.overlay.simulation.set_conditions(node_name(0), node_name(1), line);
      std::mt19937_64 random(seed);
      const auto is_heard = [&] { return test.overlay.node(0).heard().size() == 2; };
      for (int i = 0; i < 6; ++i) {
        CAPTURE(i);
        test.begin(25'000'000);
        test.pass(std::chrono::milliseconds(1'500));
        REQUIRE(is_heard());
        test.overlay.set_stalled(0, 1, true);
        const TimePoint stalled_at = test.overlay.simulation.clock().now();
        REQUIRE(test.overlay.run([&] { return !is_heard(); }, std::chrono::seconds(5)));
        CHECK(test.overlay.simulation.clock().now() - stalled_at <=
              std::chrono::milliseconds(1'300) + round_trip);
        test.pass(std::chrono::milliseconds(random() % 8'000));
        test.overlay.set_stalled(0, 1, false);
        test.seconds();
      }
    }
  }
}

TEST_CASE("a stream that is held up behind a relay is left, and used again") {
  for (std::uint64_t seed = 1; seed <= 5; seed += kSeedStep) {
    CAPTURE(seed);
    TwoWays test(seed);
    test.begin();
    test.pass(std::chrono::milliseconds(300));
    test.overlay.set_stalled(1, 2, true);
    CHECK(test.seconds() < 0.3 + to_seconds(kNoticed) + 0.5);
    CHECK(test.overlay.node(1).heard().size() == 1);
    test.overlay.set_stalled(1, 2, false);
    test.pass(kStall);
    test.begin();
    CHECK(test.seconds() < 1.2);
  }
}

TEST_CASE("a silent stream that lost its blocks is used again while the others move") {
  for (std::uint64_t seed = 1; seed <= 3; seed += kSeedStep) {
    CAPTURE(seed);
    TwoWays test(seed);
    test.begin(15'000'000);  // six seconds over both ways, twelve over one
    test.pass(std::chrono::milliseconds(300));
    test.overlay.set_stalled(1, 2, true);
    test.pass(std::chrono::milliseconds(2200));
    test.overlay.set_cut(1, 2, true);
    test.pass(std::chrono::milliseconds(100));
    test.overlay.set_stalled(1, 2, false);
    test.overlay.set_cut(1, 2, false);
    CHECK(test.seconds() < 9.5);
  }
}

TEST_CASE("a stream that is held up while nothing moves is left once something does") {
  TwoWays test(7);
  test.begin();
  test.pass(std::chrono::milliseconds(300));
  test.overlay.set_stalled(0, 2, true);
  test.overlay.set_stalled(1, 2, true);
  test.pass(kStall);
  test.overlay.set_stalled(0, 2, false);
  // Its patience is twice what its last block took.
  CHECK(test.seconds() < 0.3 + 3 * to_seconds(kStall) + to_seconds(kNoticed));
}

TEST_CASE("a destination that calls late makes no stream silent") {
  TwoWays test(8);
  Broadcast broadcast(CollectiveId(0), {0, 2}, std::vector<std::byte>(1'000, std::byte(7)));
  broadcast.post(test.overlay, 0);
  test.pass(std::chrono::seconds(4));
  broadcast.post(test.overlay, 1);
  REQUIRE(test.overlay.run([&] { return broadcast.is_over(); }, std::chrono::seconds(10)));
  CHECK(broadcast.is_right());
  CHECK(blocks_resent(test.overlay) == 0);
}

TEST_CASE("a slow stream is not silent before a block has had its time") {
  PlanBuilder builder(3);
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 10 * kMbps);
  }
  // A block takes more than two seconds on the slow way.
  builder.add_broadcast(0, {0, 2}, {{{{0, 2}}, 10 * kMbps}, {{{0, 1}, {1, 2}}, 0.1 * kMbps}});
  Overlay overlay(9, 3);
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 2});
  LinkConditions line;
  line.delay = std::chrono::milliseconds(1200);
  overlay.simulation.set_conditions(node_name(1), node_name(2), line);
  std::mt19937_64 random(5);
  Broadcast broadcast(CollectiveId(0), {0, 2}, random_bytes(random, 12'500'000));
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }, std::chrono::seconds(60)));
  CHECK(broadcast.is_right());
  CHECK(blocks_resent(overlay) == 0);
}

TEST_CASE("a link that stalls where there is no other way is waited for, and not given up") {
  Overlay overlay(3, 2);
  PlanBuilder builder(2);
  builder.add_link(0, 1, 10 * kMbps);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  std::mt19937_64 random(5);
  Broadcast broadcast(CollectiveId(0), {0, 1}, random_bytes(random, 1'250'000));
  const TimePoint begun = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::milliseconds(300));
  overlay.set_stalled(0, 1, true);
  overlay.run([] { return false; }, kStall);
  CHECK(overlay.node(0).heard().empty());
  CHECK(overlay.node(1).heard().size() == 1);  // its link of the same name is up
  overlay.set_stalled(0, 1, false);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }, std::chrono::seconds(10)));
  CHECK(broadcast.is_right());
  CHECK(to_seconds(std::ranges::max(broadcast.finished_at) - begun) < to_seconds(kStall) + 1.0 + 0.5);
  CHECK(overlay.node(0).heard().size() == 1);
}

TEST_CASE("a relay's process that stops is left out, and used again when it goes on") {
  TwoWays test(4);
  test.begin();
  test.pass(std::chrono::milliseconds(300));
  test.overlay.simulation.pause(node_name(1), kStall);
  CHECK(test.seconds() < 0.3 + to_seconds(kNoticed) + 0.5 + 0.5);
  test.pass(kStall);
  test.begin();
  CHECK(test.seconds() < 1.2);
}

TEST_CASE("who was stopped itself suspects nobody") {
  for (std::uint64_t seed = 1; seed <= 5; seed += kSeedStep) {
    CAPTURE(seed);
    TwoWays test(seed);
    test.begin();
    test.pass(std::chrono::milliseconds(200 + 100 * seed));
    test.overlay.simulation.pause(node_name(0), kStall);
    test.expect_trust(kStall + std::chrono::seconds(2));
    CHECK(test.seconds() < 1.2 + to_seconds(kStall) + 0.5);
  }
}

TEST_CASE("long links that lose packets are not suspected, and nothing fails") {
  TwoWays test(6);
  LinkConditions line;
  line.delay = std::chrono::milliseconds(150);
  line.jitter = std::chrono::milliseconds(50);
  line.loss = 0.02;
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    test.overlay.simulation.set_conditions(node_name(static_cast<std::size_t>(from)),
                                           node_name(static_cast<std::size_t>(to)), line);
  }
  for (int round = 0; round < 10; ++round) {
    const Broadcast& broadcast = test.begin();
    for (int second = 0; second < 60 && !broadcast.is_over(); ++second) {
      test.expect_trust(std::chrono::seconds(1), std::chrono::seconds(2));
    }
    CHECK(broadcast.is_right());
  }
}
