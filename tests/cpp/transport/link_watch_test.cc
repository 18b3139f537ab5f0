// When a link's peer is asked, and when it is suspected.
#include "transport/link_watch.h"

#include <doctest/doctest.h>

#include <random>

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
    const TimePoint answered = now + round_trip;
    watch.begin(now);
    while (answered - now > kWatchInterval) {
      now += kWatchInterval;
      REQUIRE_FALSE(watch.look(now, false));
    }
    now = answered;
    watch.note_heard();
    REQUIRE(watch.pong(number, now).has_value());
    watch.begin(now);
  }
  // It has been silent until now; the ping that waited is answered, and the next one at once, unless that is
  // lost.
  void end_silence(Duration round_trip, bool is_asked = true) {
    watch.note_heard();
    CHECK_FALSE(watch.pong(last_ping, now).has_value());
    if (!is_asked) return;
    REQUIRE(watch.ping_is_due());
    measure(round_trip);
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
  CHECK(uneven.watch.patience() > 1500ms);
  CHECK(uneven.watch.patience() < 4s);
}

TEST_CASE("the next silence is noticed as soon as the first, whatever was before") {
  constexpr Duration kNoticed = kMinSuspicionTime + kWatchInterval;
  std::mt19937_64 random(7);
  for (const Duration round_trip : {Duration(1ms), Duration(50ms), Duration(99ms)}) {
    for (const bool is_asked : {true, false}) {
      Tail tail;
      tail.measure(round_trip);
      for (int i = 0; i < 40; ++i) {
        CAPTURE(i);
        REQUIRE(tail.until_suspected(60s) == kNoticed);
        const auto longer = std::chrono::milliseconds(random() % 20'000);
        for (const TimePoint end = tail.now + longer; tail.now < end; tail.now += kWatchInterval)
          tail.watch.look(tail.now, false);
        tail.end_silence(round_trip, is_asked);
      }
    }
  }
}

TEST_CASE("pauses that are too short for a suspicion make nobody patient") {
  Tail tail;
  tail.measure(50ms);
  for (int i = 0; i < 20; ++i) {
    tail.measure(950ms);
    CHECK(tail.watch.patience() == kMinSuspicionTime);
    for (int k = 0; k < 3; ++k) tail.measure(50ms);
  }
}

TEST_CASE("what waited while the watcher was away says nothing of the round trip") {
  Tail tail;
  tail.measure(50ms);
  for (const bool looks_first : {true, false}) {
    tail.until_suspected(500ms);
    tail.now += 30s;
    if (looks_first) tail.watch.look(tail.now, false);
    tail.end_silence(50ms);
    CHECK(tail.watch.patience() == kMinSuspicionTime);
  }
}

TEST_CASE("a round trip that is longer than the least suspicion is found, at first and later") {
  Tail tail;
  const auto ask = [&](Duration round_trip) {
    const auto number = tail.watch.ping(tail.now);
    bool is_suspected = false;
    for (const TimePoint end = tail.now + round_trip; tail.now < end; tail.now += kWatchInterval)
      is_suspected = tail.watch.look(tail.now, false) || is_suspected;
    tail.watch.note_heard();
    tail.watch.pong(number, tail.now);
    return is_suspected;
  };
  CHECK(ask(2s));
  for (int i = 0; i < 100; ++i) REQUIRE_FALSE(ask(2s));
  tail.measure(50ms);
  CHECK(tail.watch.patience() < 4s);
  for (int i = 0; i < 100; ++i) tail.measure(50ms);
  for (int i = 0; i < LinkWatch::kAlikeWaits; ++i) CHECK(ask(2s));
  for (int i = 0; i < 100; ++i) REQUIRE_FALSE(ask(2s));
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
