// What a link carries, from made-up transfers.
#include "transport/capacity_meter.h"

#include <doctest/doctest.h>

#include "transport/link_watch.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

constexpr double kCapacityBps = 20e6;

// A tail that looks at its link.
struct MeteredTail {
  // One look later, when the link has carried so much.
  std::optional<double> look(double rate_bps, bool is_limited = true, Duration step = kWatchInterval) {
    now += step;
    bits += rate_bps * to_seconds(step);
    return meter.add({now, bits, round_trip, is_limited});
  }
  // How many looks until the first estimate, 0 if there is none.
  int looks_until_estimate(double rate_bps, int most = 100) {
    for (int looks = 1; looks <= most; ++looks) {
      const auto estimate = look(rate_bps);
      if (!estimate) continue;
      CHECK(*estimate == doctest::Approx(rate_bps));
      return looks;
    }
    return 0;
  }

  CapacityMeter meter;
  TimePoint now{};
  double bits = 0;
  Duration round_trip = 10ms;
};

}  // namespace

TEST_CASE("a transfer that the network limits for a second tells what the link carries") {
  MeteredTail tail;
  const int looks = tail.looks_until_estimate(kCapacityBps);
  CHECK(looks * kWatchInterval <= 1500ms);
  CHECK(looks * kWatchInterval >= 1s);
  // From then on at every look.
  CHECK(tail.look(kCapacityBps).has_value());
}

TEST_CASE("who ran dry once begins again") {
  MeteredTail tail;
  for (int i = 0; i < 100; ++i) CHECK_FALSE(tail.look(kCapacityBps, i % 4 != 0).has_value());
}

TEST_CASE("what still grows says nothing, nor what stalls") {
  MeteredTail tail;
  double rate = 1e6;
  for (int i = 0; i < 10; ++i, rate *= 1.5) CHECK_FALSE(tail.look(rate).has_value());
  CHECK(tail.looks_until_estimate(rate) > 0);
  CHECK_FALSE(tail.look(0.5 * rate).has_value());
}

TEST_CASE("nothing that came through is no estimate of 0") {
  MeteredTail tail;
  for (int i = 0; i < 20; ++i) CHECK_FALSE(tail.look(0).has_value());
}

TEST_CASE("a drop is known within two seconds, and noise does not hide it") {
  MeteredTail tail;
  REQUIRE(tail.looks_until_estimate(100e6) > 0);
  std::optional<double> estimate;
  int looks = 0;
  while (!estimate && looks < 100) estimate = tail.look(++looks % 2 == 0 ? 19e6 : 21e6);
  REQUIRE(estimate.has_value());
  CHECK(*estimate == doctest::Approx(kCapacityBps).epsilon(0.1));
  CHECK(looks * kWatchInterval <= 2s);
}

TEST_CASE("a look that comes late counts nothing") {
  MeteredTail tail;
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(
        tail.look(kCapacityBps, true, i % 3 == 0 ? 2 * kMaxCapacityStep : kWatchInterval).has_value());
  }
}

TEST_CASE("a long link is measured over its round trips") {
  MeteredTail tail;
  tail.round_trip = 600ms;
  const int looks = tail.looks_until_estimate(kCapacityBps);
  CHECK(looks * kWatchInterval >= 4 * tail.round_trip);
}
