// What nodes find out of their links while they use them.
#include <doctest/doctest.h>

#include "overlay.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr double kPlannedBps = 100e6;
constexpr std::size_t kBytes = 100'000'000;

// One node that sends to another over a link that is planned with kPlannedBps.
struct Transfer {
  explicit Transfer(double capacity_bps) : overlay(1, 2) {
    set_capacity(capacity_bps);
    PlanBuilder builder(2);
    builder.add_link(0, 1, kPlannedBps, 5ms);
    builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, kPlannedBps}});
    REQUIRE(overlay.publish(builder.build()));
    overlay.set_members(CollectiveId(0), {0, 1});
    broadcast.post_all(overlay);
  }

  void set_capacity(double bps) {
    LinkConditions conditions{.delay = 5ms, .capacity_bps = bps};
    overlay.simulation.set_conditions(node_name(0), node_name(1), conditions);
  }
  void pass(Duration time) {
    bool is_over = false;
    clock->post_at(overlay.simulation.clock().now() + time, [&] { is_over = true; });
    overlay.run([&] { return is_over; });
  }
  // Asks as heartbeats do, until the link is known to carry about so much; how long that took.
  Duration until_known(double bps, Duration most) {
    const TimePoint begun = overlay.simulation.clock().now();
    while (overlay.simulation.clock().now() - begun < most) {
      pass(100ms);
      for (const LinkReport& report : overlay.node(0).take_measured()) {
        if (report.capacity_bps > 0.9 * bps && report.capacity_bps < 1.1 * bps)
          return overlay.simulation.clock().now() - begun;
      }
    }
    return most;
  }
  // Whether it says anything of capacities meanwhile.
  bool says_nothing(Duration time) {
    return until_known(kPlannedBps, time) == time && until_known(kPlannedBps / 5, time) == time;
  }

  Broadcast broadcast{CollectiveId(0), {0, 1}, std::vector<std::byte>(kBytes)};
  Overlay overlay;
  std::unique_ptr<Executor> clock = overlay.simulation.make_executor("clock");
};

}  // namespace

TEST_CASE("a link that drops to a fifth is known to within two seconds") {
  Transfer transfer(kPlannedBps);
  transfer.pass(2s);
  transfer.set_capacity(kPlannedBps / 5);
  CHECK(transfer.until_known(kPlannedBps / 5, 10s) <= 2s);
}

TEST_CASE("a link that carries all that is planned says nothing") {
  Transfer transfer(2 * kPlannedBps);
  CHECK(transfer.says_nothing(2s));
}

TEST_CASE("a link that has come back is found by a probe within a minute") {
  Transfer transfer(kPlannedBps);
  transfer.overlay.run([&] { return transfer.broadcast.is_over(); });
  transfer.set_capacity(kPlannedBps / 2);
  CHECK(transfer.until_known(kPlannedBps / 2, 100s) <= 60s);
  transfer.set_capacity(kPlannedBps);
  CHECK(transfer.until_known(kPlannedBps, 100s) <= 60s);
}
