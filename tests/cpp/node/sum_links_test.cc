// Sums over links that fail: they move as soon as a plan leads around, and what is none of theirs leaves them
// alone.
#include <doctest/doctest.h>

#include "node/links/broken_links.h"
#include "node/sums.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr double kMbps = 1e6;
constexpr std::size_t kFloats = 2'500'000;
// What the controller takes: from a report to the new plan at all nodes.
constexpr Duration kPlanning = 200ms;

// A reduce from n1 and n2 to n0, at 20 Mbit/s: half of it directly, half added by n3. And a broadcast from n0
// to n4.
std::shared_ptr<const Plan> reduce_plan(Epoch epoch, bool by_relay) {
  PlanBuilder builder(5, epoch);
  for (const auto& [from, to] : {std::pair(1, 0), std::pair(2, 0), std::pair(1, 3), std::pair(2, 3),
                                 std::pair(3, 0), std::pair(0, 4)}) {
    builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 20 * kMbps);
  }
  PlanBuilder::Trees trees{{{{1, 0}, {2, 0}}, 10 * kMbps}};
  if (by_relay) trees.push_back({{{1, 3}, {2, 3}, {3, 0}}, 10 * kMbps});
  builder.add_reduce(0, {0, 1, 2}, trees);
  builder.add_broadcast(0, {0, 4}, {{{{0, 4}}, 1 * kMbps}});
  return builder.build();
}

struct Reduce {
  explicit Reduce(std::uint64_t seed) : overlay(seed, 5) {
    overlay.simulation.set_default_conditions({.delay = 10ms});
    REQUIRE(overlay.publish(reduce_plan(Epoch(1), true)));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    std::mt19937_64 random(seed);
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < 3; ++rank) inputs.push_back(whole_floats(random, kFloats));
    sum = std::make_unique<Sum>(CollectiveId(0), std::vector<std::uint32_t>{0, 1, 2}, std::move(inputs), 0);
    sum->post_all(overlay);
    begun = overlay.simulation.clock().now();
  }
  void pass(Duration time) {
    const TimePoint end = overlay.simulation.clock().now() + time;
    overlay.simulation.run_until([] { return false; }, end);
  }
  double seconds() {
    REQUIRE(overlay.run([&] { return sum->is_over(); }, 60s));
    CHECK(sum->is_right());
    return to_seconds(std::ranges::max(sum->finished_at) - begun);
  }
  std::uint64_t blocks_sent(std::size_t node) {
    std::optional<NodeStatistics> statistics;
    overlay.node(node).statistics([&](NodeStatistics now) { statistics = now; });
    REQUIRE(overlay.run([&] { return statistics.has_value(); }));
    return statistics->blocks_sent;
  }

  Overlay overlay;
  std::unique_ptr<Sum> sum;
  TimePoint begun{};
};

}  // namespace

TEST_CASE("a sum through a relay that falls silent goes on as soon as the plan leads around it") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const double undisturbed = Reduce(seed).seconds();
    Reduce test(seed);
    bool is_reported = false;
    for (const std::size_t tail : {1, 2}) {
      test.overlay.node(tail).report_broken_links(
          [&](const std::vector<std::string>&) { is_reported = true; });
    }
    test.pass(500ms);
    test.overlay.simulation.pause(node_name(3), 30s);
    REQUIRE(test.overlay.run([&] { return is_reported; }, 5s));
    const TimePoint reported_at = test.overlay.simulation.clock().now();
    CHECK(reported_at - test.begun < 500ms + 1'600ms);
    test.pass(kPlanning);
    int installed = 0;
    for (const std::size_t node : {0, 1, 2, 4}) {
      test.overlay.node(node).install_plan(reduce_plan(Epoch(2), false), [&](Epoch) { ++installed; });
    }
    REQUIRE(test.overlay.run([&] { return installed == 4; }, 5s));
    for (const std::size_t node : {0, 1, 2, 4}) test.overlay.node(node).activate_plan(Epoch(2), true);
    const Duration moved = test.overlay.simulation.clock().now() - test.begun;
    // Half of the capacity is left, for what was not through at the fault.
    MESSAGE("undisturbed ", undisturbed, " s, moved after ", to_seconds(moved), " s, took ", test.seconds(),
            " s");
    CHECK(test.seconds() < to_seconds(moved) + 2 * undisturbed + 0.3);
  }
}

TEST_CASE("a link that comes back does not make sums begin again that do not use it") {
  const auto sent = [](std::size_t cut_from, std::size_t cut_to, bool is_cut) {
    Reduce test(3);
    test.pass(1s);
    // Nothing comes any more by one of the streams, and soon by none.
    test.overlay.set_stalled(1, 0, true);
    test.pass(6s);
    test.overlay.set_cut(cut_from, cut_to, is_cut);
    test.pass(300ms);
    test.overlay.set_cut(cut_from, cut_to, false);
    test.pass(1'500ms);
    const std::uint64_t blocks = test.blocks_sent(2);
    test.overlay.set_stalled(1, 0, false);
    test.seconds();
    return blocks;
  };
  const std::uint64_t undisturbed = sent(0, 4, false);
  CHECK(sent(0, 4, true) == undisturbed);
  CHECK(sent(2, 0, true) > undisturbed);
}
