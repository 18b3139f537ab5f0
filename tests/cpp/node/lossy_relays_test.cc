// Relays that take blocks and do not pass them on: found, reported by name, avoided for a while and tried
// again.
#include "node/links/lossy_relays.h"

#include <doctest/doctest.h>

#include "node/sum_plans.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

enum class Way { kBoth, kDirect };

// n0 to n2: directly, and through n1 or, where `far`, through n1 and n3. The broadcast's root is n0, the
// sum's n2.
std::shared_ptr<const Plan> ways(Way way, bool far, Epoch epoch) {
  PlanBuilder builder(4, epoch);
  for (const auto& [from, to] :
       {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2), std::pair(1, 3), std::pair(3, 2)})
    builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 20 * kMbps);
  PlanBuilder::Trees trees{{{{0, 2}}, 10 * kMbps}};
  if (way == Way::kBoth && far) trees.push_back({{{0, 1}, {1, 3}, {3, 2}}, 10 * kMbps});
  if (way == Way::kBoth && !far) trees.push_back({{{0, 1}, {1, 2}}, 10 * kMbps});
  builder.add_broadcast(0, {0, 2}, trees);
  builder.add_reduce(2, {0, 2}, trees);
  return builder.build();
}

struct Ways {
  explicit Ways(std::uint64_t seed, bool far = false) : overlay(seed, 4), is_far(far) {
    for (const std::size_t node : {0U, 2U}) {
      overlay.node(node).report_broken_links([this, node](const LinkTroubles& troubles) {
        if (!troubles.lossy.empty() && lossy[node].empty()) reported_at = overlay.simulation.clock().now();
        lossy[node] = troubles.lossy;
      });
    }
    REQUIRE(overlay.publish(ways(Way::kBoth, is_far, Epoch(1))));
    for (const std::uint32_t id : {0U, 1U}) overlay.set_members(CollectiveId(id), {0, 2});
  }
  // Of what the relay is to pass on.
  void lose(double share, std::size_t from = 1, std::size_t to = 2) {
    LinkConditions line;
    line.omission = share;
    overlay.simulation.set_conditions(node_name(from), node_name(to), line);
  }
  double broadcast(std::size_t bytes = 1'250'000) {
    Broadcast cast(CollectiveId(0), {0, 2}, payload(bytes));
    cast.operation = OperationId(broadcasts++);
    cast.post_all(overlay);
    const TimePoint begun = overlay.simulation.clock().now();
    REQUIRE(overlay.run([&] { return cast.is_over(); }, 60s));
    CHECK(cast.is_right());
    return to_seconds(overlay.simulation.clock().now() - begun);
  }
  double sum() {
    std::mt19937_64 random(5);
    Sum added(CollectiveId(1), {0, 2}, {whole_floats(random, 300'000), whole_floats(random, 300'000)}, 1);
    added.operation = OperationId(sums++);
    added.post_all(overlay);
    const TimePoint begun = overlay.simulation.clock().now();
    REQUIRE(overlay.run([&] { return added.is_over(); }, 60s));
    CHECK(added.is_right());
    return to_seconds(overlay.simulation.clock().now() - begun);
  }
  // Operations one after the other until the node reports a relay, or the time is over.
  bool is_reported(std::size_t node, Duration limit) {
    const TimePoint end = overlay.simulation.clock().now() + limit;
    while (lossy[node].empty() && overlay.simulation.clock().now() < end) node == 0 ? broadcast() : sum();
    return !lossy[node].empty();
  }

  Overlay overlay;
  const bool is_far;
  std::map<std::size_t, std::vector<LossyRelay>> lossy;  // by reporter
  TimePoint reported_at{};
  std::uint64_t broadcasts = 0;
  std::uint64_t sums = 0;
};

}  // namespace

TEST_CASE("a relay that swallows blocks, or drops a part, is reported by name within seconds") {
  for (const double share : {1.0, 0.3}) {
    for (const std::size_t reporter : {0U, 2U}) {
      CAPTURE(share);
      CAPTURE(reporter);
      Ways test(3);
      if (share == 1.0) CHECK_FALSE(test.is_reported(reporter, 5s));
      const TimePoint begun = test.overlay.simulation.clock().now();
      test.lose(share);
      REQUIRE(test.is_reported(reporter, 10s));
      CHECK(test.reported_at - begun < 4'800ms);
      CHECK(test.lossy[reporter].front().relay == "n1");
      CHECK_FALSE(test.lossy[reporter].front().is_way);
      // The controller's part.
      REQUIRE(test.overlay.publish(ways(Way::kDirect, false, Epoch(2)), true));
      CHECK(test.broadcast() < 1.2);
      pass(test.overlay, kFirstAvoidance);
      CHECK(test.lossy[reporter].empty());
    }
  }
}

TEST_CASE("where relays follow one another the way through the first is named") {
  Ways test(3, true);
  test.lose(1.0, 3, 2);
  REQUIRE(test.is_reported(0, 10s));
  CHECK(test.lossy[0].front().relay == "n1");
  CHECK(test.lossy[0].front().is_way);
}

TEST_CASE("a relay is avoided for longer each time that it loses blocks again") {
  Ways test(3);
  test.lose(1.0);
  Duration last = kFirstAvoidance;
  for (int i = 0; i < 3; ++i, last *= 2) {
    REQUIRE(test.is_reported(0, 10s));
    pass(test.overlay, last - 5s);
    CHECK_FALSE(test.lossy[0].empty());
    pass(test.overlay, 6s);
    CHECK(test.lossy[0].empty());
  }
}

TEST_CASE("nobody is blamed for a link that breaks, stalls or is slow, nor for a member that is late") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + 4; seed += kSeedStep) {
    CAPTURE(seed);
    Ways test(seed);
    std::mt19937_64 random(seed);
    const auto run = [&] {
      for (int i = 0; i < 3; ++i) {
        test.broadcast();
        test.sum();
      }
    };
    for (int round = 0; round < 3; ++round) {
      const auto from = static_cast<std::size_t>(random() % 2);
      test.overlay.set_cut(from, from + 1, true);
      pass(test.overlay, std::chrono::milliseconds(random() % 500));
      test.overlay.set_cut(from, from + 1, false);
      run();
      test.overlay.set_stalled(from, from + 1, true);
      pass(test.overlay, std::chrono::milliseconds(random() % 900));
      test.overlay.set_stalled(from, from + 1, false);
      run();
      LinkConditions slow = test.overlay.simulation.conditions(node_name(1), node_name(2));
      slow.capacity_bps = 2 * kMbps;
      test.overlay.simulation.set_conditions(node_name(1), node_name(2), slow);
      run();
      test.overlay.simulation.set_conditions(node_name(1), node_name(2), {});
      // The destination's process does nothing for a while.
      test.overlay.simulation.pause(node_name(2), std::chrono::milliseconds(random() % 4'000));
      run();
    }
    CHECK(test.lossy[0].empty());
    CHECK(test.lossy[2].empty());
  }
}

TEST_CASE("a relay is not blamed for a member behind it that is stopped, while other members go on") {
  for (std::uint64_t seed = 1; seed <= 3; seed += kSeedStep) {
    CAPTURE(seed);
    Overlay overlay(seed, 4);
    PlanBuilder builder(4);
    for (const auto& [from, to] :
         {std::pair(0, 1), std::pair(1, 2), std::pair(1, 3), std::pair(0, 2), std::pair(0, 3)})
      builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 20 * kMbps);
    builder.add_broadcast(0, {0, 2, 3},
                          {{{{0, 2}, {0, 3}}, 10 * kMbps}, {{{0, 1}, {1, 2}, {1, 3}}, 10 * kMbps}});
    REQUIRE(overlay.publish(builder.build()));
    overlay.set_members(CollectiveId(0), {0, 2, 3});
    bool is_blamed = false;
    overlay.node(0).report_broken_links(
        [&](const LinkTroubles& troubles) { is_blamed = is_blamed || !troubles.lossy.empty(); });
    for (std::uint64_t i = 0; i < 4; ++i) {
      Broadcast cast(CollectiveId(0), {0, 2, 3}, payload(10'000'000));
      cast.operation = OperationId(i);
      cast.post_all(overlay);
      pass(overlay, 500ms);
      overlay.simulation.pause(node_name(3), 6s);
      REQUIRE(overlay.run([&] { return cast.is_over(); }, 60s));
      CHECK(cast.is_right());
    }
    CHECK_FALSE(is_blamed);
  }
}
