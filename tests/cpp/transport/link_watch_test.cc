// When a link's peer is asked, and when it is suspected.
#include "transport/link_watch.h"

#include <doctest/doctest.h>

using namespace square;
using namespace std::chrono_literals;

namespace {

// A tail that sends all the time, and looks at its peer as it should.
struct Tail {
  // How long until the peer is suspected, `most` at the most, with a frame before every look.
  Duration until_suspected(Duration most) {
    const TimePoint begun = now;
    while (now - begun < most) {
      watch.note_use();
      now += kWatchInterval;
      if (watch.look(now, false)) break;
      if (watch.ping_is_due()) last_ping = watch.ping(now);
    }
    return now - begun;
  }
  void measure(Duration round_trip) {
    const auto number = watch.ping(now);
    now += round_trip;
    watch.note_heard();
    REQUIRE(watch.pong(number, now).has_value());
    watch.begin(now);
  }

  LinkWatch watch;
  TimePoint now{};
  std::uint64_t last_ping = 0;
};

}  // namespace

TEST_CASE("the estimate is the least of late samples") {
  LinkWatch watch;
  const TimePoint start{};
  const auto measure = [&](Duration round_trip) {
    watch.note_use();
    watch.look(start + kRoundTripInterval, false);
    REQUIRE(watch.ping_is_due());
    const auto number = watch.ping(start);
    watch.note_heard();
    CHECK_FALSE(watch.pong(number + 1, start).has_value());
    return watch.pong(number, start + round_trip);
  };
  CHECK(measure(50ms) == 50ms);
  CHECK(measure(80ms) == 50ms);
  CHECK(measure(20ms) == 20ms);
  for (std::size_t i = 1; i < LinkWatch::kSamples; ++i) CHECK(measure(90ms) == 20ms);
  CHECK(measure(90ms) == 90ms);
  CHECK(watch.rests());  // nothing was sent since
  watch.look(start + 2 * kRoundTripInterval, false);
  CHECK_FALSE(watch.ping_is_due());
}

TEST_CASE("a silent peer is suspected after a second, or after four round trips, or as they spread") {
  Tail near;
  near.measure(1ms);
  CHECK(near.until_suspected(10s) == kMinSuspicionTime + kWatchInterval);  // the first step does not count
  Tail far;
  far.measure(400ms);
  CHECK(far.until_suspected(10s) == 2000ms);  // the look after 1.6 s, and the first step
  Tail uneven;
  for (int i = 0; i < 20; ++i) uneven.measure(i % 2 == 0 ? 100ms : 1100ms);
  CHECK(uneven.watch.patience() > 2s);
  CHECK(uneven.watch.patience() < 4s);
}

TEST_CASE("who speaks is not suspected any more, and who speaks all the time never") {
  Tail tail;
  tail.measure(1ms);
  tail.until_suspected(10s);
  CHECK(tail.watch.note_heard());
  CHECK_FALSE(tail.watch.note_heard());
  for (int i = 0; i < 100; ++i) {
    CHECK(tail.until_suspected(750ms) == 750ms);
    CHECK_FALSE(tail.watch.note_heard());
  }
}

TEST_CASE("a peer that takes what is sent is not silent: the answer waits behind it") {
  Tail tail;
  tail.measure(1ms);
  for (int i = 0; i < 100; ++i) {
    tail.watch.note_use();
    tail.now += kWatchInterval;
    CHECK_FALSE(tail.watch.look(tail.now, true));
  }
}

TEST_CASE("who could not look suspects nobody") {
  Tail tail;
  tail.measure(1ms);
  CHECK(tail.until_suspected(750ms) == 750ms);
  tail.now += 5s;
  CHECK_FALSE(tail.watch.look(tail.now, false));
  CHECK(tail.until_suspected(10s) == 2 * kWatchInterval);  // it is silent all the same
}

TEST_CASE("a step in which the peer has spoken is no silence") {
  Tail tail;
  tail.measure(1ms);
  CHECK(tail.until_suspected(500ms) == 500ms);
  tail.now += 240ms;
  tail.watch.note_heard();
  tail.watch.note_use();
  tail.now += 10ms;
  CHECK_FALSE(tail.watch.look(tail.now, false));
  CHECK(tail.until_suspected(10s) == kMinSuspicionTime);
}

TEST_CASE("a link that is not used is not asked, and rests") {
  Tail tail;
  tail.measure(1ms);
  CHECK(tail.watch.rests());
  tail.watch.note_use();
  CHECK_FALSE(tail.watch.rests());
  for (int i = 0; i < 2; ++i) {
    CHECK_FALSE(tail.watch.ping_is_due());
    tail.now += kWatchInterval;
    tail.watch.look(tail.now, false);
  }
  REQUIRE(tail.watch.ping_is_due());
  tail.measure(1ms);
  CHECK(tail.watch.rests());
}
