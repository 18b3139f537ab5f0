// Links that a node asks the controller to avoid, and that it has back.
#include "node/links/broken_links.h"

#include <doctest/doctest.h>

#include "node/links/neighbours.h"
#include "node/overlay.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

// Between attempts to dial, and until one that nobody answers is over.
constexpr Duration kSimulatedDialTime = 2'500ms;
using Peers = std::vector<std::string>;

// From n0 to n2 at 10 Mbit/s: directly, or through n1.
std::shared_ptr<const Plan> way(Epoch epoch, bool direct) {
  PlanBuilder builder(3, epoch);
  if (direct) {
    builder.add_link(0, 2, 10 * kMbps);
    builder.add_broadcast(0, {0, 2}, {{{{0, 2}}, 10 * kMbps}});
  } else {
    builder.add_link(0, 1, 10 * kMbps);
    builder.add_link(1, 2, 10 * kMbps);
    builder.add_broadcast(0, {0, 2}, {{{{0, 1}, {1, 2}}, 10 * kMbps}});
  }
  return builder.build();
}

// What n0 reports, and when.
struct Watched {
  explicit Watched(std::uint64_t seed, LinkConditions conditions = {}) : overlay(seed, 3) {
    overlay.simulation.set_default_conditions(conditions);
    overlay.node(0).report_broken_links(
        [this](LinkTroubles told) {
          troubles = std::move(told);
          if (!reports.empty() && reports.back() == troubles.broken) return;
          if (reports.empty() && troubles.broken.empty()) return;
          reports.push_back(troubles.broken);
          reported_at = overlay.simulation.clock().now();
        },
        [this] { return has_controller; });
    REQUIRE(overlay.publish(way(Epoch(1), true)));
    overlay.set_members(CollectiveId(0), {0, 2});
  }
  Broadcast& begin(std::size_t bytes) {
    std::mt19937_64 random(5);
    broadcasts.push_back(std::make_unique<Broadcast>(CollectiveId(0), std::vector<std::uint32_t>{0, 2},
                                                     random_bytes(random, bytes)));
    broadcasts.back()->operation = OperationId(broadcasts.size() - 1);
    broadcasts.back()->post_all(overlay);
    return *broadcasts.back();
  }
  // The hosts of n0 and n2 refuse one another.
  void set_refused(bool is_refused) {
    LinkConditions line = overlay.simulation.conditions("n0", "n2");
    line.is_refused = is_refused;
    overlay.simulation.set_conditions("n0", "n2", line);
    overlay.simulation.set_conditions("n2", "n0", line);
  }
  void pass(Duration time) {
    const TimePoint end = overlay.simulation.clock().now() + time;
    overlay.simulation.run_until([] { return false; }, end);
  }
  // Until n0 has reported so often.
  [[nodiscard]] bool wait_for(std::size_t count, Duration limit) {
    return overlay.run([&] { return reports.size() >= count; }, limit);
  }
  // How long the link must be well before that is believed.
  Duration trial() {
    overlay.set_cut(0, 2, true);
    const std::size_t before = reports.size();
    REQUIRE(wait_for(before + 1, 2s));
    overlay.set_cut(0, 2, false);
    const TimePoint healed = overlay.simulation.clock().now();
    REQUIRE(wait_for(before + 2, 60s));
    CHECK(reports.back().empty());
    return reported_at - healed;
  }

  Overlay overlay;
  std::vector<Peers> reports;
  LinkTroubles troubles;
  bool has_controller = false;
  TimePoint reported_at{};
  std::vector<std::unique_ptr<Broadcast>> broadcasts;
};

}  // namespace

TEST_CASE("a silent link is reported, and taken back though no plan leads over it any more") {
  for (std::uint64_t seed = 1; seed <= 3; seed += kSeedStep) {
    CAPTURE(seed);
    Watched test(seed);
    Broadcast& cast = test.begin(5'000'000);
    test.pass(500ms);
    const TimePoint cut_at = test.overlay.simulation.clock().now();
    test.overlay.set_stalled(0, 2, true);
    REQUIRE(test.wait_for(1, 5s));
    CHECK(test.reports.back() == Peers{"n2"});
    CHECK(test.reported_at - cut_at < 1'700ms);
    // The controller's part.
    REQUIRE(test.overlay.publish(way(Epoch(2), false), true));
    REQUIRE(test.overlay.run([&] { return cast.is_over(); }, 10s));
    CHECK(cast.is_right());
    test.pass(30s);
    CHECK(test.reports.size() == 1);
    test.overlay.set_stalled(0, 2, false);
    CHECK(test.wait_for(2, kMinTrial + 5s));
    CHECK(test.reports.back().empty());
  }
}

TEST_CASE("a link that is lost and cannot be dialled is reported soon, and dialled until it is back") {
  Watched test(1);
  test.begin(100'000);
  test.pass(2s);
  const TimePoint cut_at = test.overlay.simulation.clock().now();
  test.overlay.set_cut(0, 2, true);
  REQUIRE(test.wait_for(1, 5s));
  CHECK(test.reports.back() == Peers{"n2"});
  CHECK(test.reported_at - cut_at < kLostGrace + 50ms);
  REQUIRE(test.overlay.publish(way(Epoch(2), false), true));
  test.pass(60s);
  test.overlay.set_cut(0, 2, false);
  CHECK(test.wait_for(2, kMinTrial + 5s));
  CHECK(test.reports.back().empty());
}

TEST_CASE("a link that is back at once is not reported, also where round trips are long") {
  for (const Duration delay : {Duration(1ms), Duration(150ms)}) {
    Watched test(1, {.delay = delay});
    test.begin(100'000);
    test.pass(3s);
    test.overlay.set_cut(0, 2, true);
    test.pass(20ms);
    test.overlay.set_cut(0, 2, false);
    test.pass(10s);
    CHECK(test.reports.empty());
    test.begin(100'000);
    test.pass(3s);
    CHECK(test.broadcasts.back()->is_right());
  }
}

TEST_CASE("a link that a plan needs and that never comes up is reported, and who listens late is not") {
  for (const bool is_late : {false, true}) {
    Watched test(1);
    REQUIRE(test.overlay.publish(way(Epoch(2), false)));
    test.overlay.set_cut(1, 0, true);
    test.overlay.set_cut(0, 1, true);
    test.pass(2s);
    CHECK(test.reports.empty());
    if (is_late) test.overlay.set_cut(0, 1, false);
    test.pass(5s);
    CHECK(test.reports == (is_late ? std::vector<Peers>{} : std::vector<Peers>{{"n1"}}));
  }
}

TEST_CASE("who is gone has no broken links") {
  Watched test(1);
  test.begin(100'000);
  test.pass(2s);
  test.overlay.transport(2).stop();
  test.pass(5s);
  CHECK(test.troubles.is_empty());

  Watched told(1);
  told.begin(100'000);
  told.pass(2s);
  told.overlay.set_cut(0, 2, true);
  REQUIRE(told.wait_for(1, 5s));
  told.overlay.node(0).set_gone("n2", "it left");
  REQUIRE(told.wait_for(2, 1s));
  CHECK(told.reports.back().empty());
}

TEST_CASE("a link that breaks again and again is trusted later each time, up to a bound") {
  Watched test(1);
  test.begin(100'000);
  test.pass(2s);
  Duration last{0};
  for (const Duration least : {kMinTrial, 2 * kMinTrial, 4 * kMinTrial, 8 * kMinTrial, 16 * kMinTrial}) {
    last = test.trial();
    CHECK(last >= least);
    CHECK(last < least + kSimulatedDialTime);
  }
  for (int i = 0; i < 3; ++i) last = test.trial();
  CHECK(last < kMaxTrial + kSimulatedDialTime);
  test.pass(kFlapTime + 1s);
  CHECK(test.trial() < kMinTrial + kSimulatedDialTime);
}

TEST_CASE("a link that breaks during its trial is not taken back, and tried for longer") {
  Watched test(1);
  test.begin(100'000);
  test.pass(2s);
  test.overlay.set_cut(0, 2, true);
  REQUIRE(test.wait_for(1, 5s));
  test.overlay.set_cut(0, 2, false);
  const TimePoint first = test.overlay.simulation.clock().now();
  while (test.overlay.simulation.clock().now() < first + 2 * kMinTrial) {
    test.pass(kMinTrial / 2);
    test.overlay.set_cut(0, 2, true);
    test.pass(10ms);
    test.overlay.set_cut(0, 2, false);
  }
  CHECK(test.reports.size() == 1);
  const TimePoint healed = test.overlay.simulation.clock().now();
  REQUIRE(test.wait_for(2, 30s));
  CHECK(test.reported_at - healed > 2 * kMinTrial);
}

TEST_CASE("loss and long round trips report nothing") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + 5; seed += kSeedStep) {
    CAPTURE(seed);
    Watched test(seed, {.delay = 150ms, .loss = 0.02});
    for (int i = 0; i < 10; ++i) {
      Broadcast& cast = test.begin(5'000'000);
      REQUIRE(test.overlay.run([&] { return cast.is_over(); }, 120s));
      CHECK(cast.is_right());
    }
    CHECK(test.reports.empty());
  }
}

TEST_CASE("a peer whose host refuses connections is avoided soon, dialled on, and not taken for gone") {
  for (const bool has_controller : {true, false}) {
    for (const Duration time : {Duration(100ms), Duration(600ms), Duration(2s)}) {
      CAPTURE(to_seconds(time));
      Watched test(1);
      test.has_controller = has_controller;
      Broadcast& cast = test.begin(20'000'000);
      test.pass(2s);
      test.set_refused(true);
      test.pass(time);
      CHECK(test.reports.size() == (time > 200ms ? 1U : 0U));
      CHECK(test.troubles.refused.size() == (time > 200ms ? 1U : 0U));
      test.set_refused(false);
      REQUIRE(test.overlay.run([&] { return cast.is_over(); }, 60s));
      CHECK(cast.is_right());
      CHECK(test.troubles.is_empty());
    }
  }
}

TEST_CASE(
    "who never lets anybody in is reported at once, and is gone only where no controller can ask others") {
  for (const bool has_controller : {true, false}) {
    CAPTURE(has_controller);
    Watched test(1);
    test.has_controller = has_controller;
    test.begin(100'000);
    test.pass(2s);
    Broadcast& cast = test.begin(20'000'000);
    test.set_refused(true);
    REQUIRE(test.wait_for(1, 300ms));
    CHECK(test.reports.back() == Peers{"n2"});
    REQUIRE(test.troubles.refused.size() == 1);
    CHECK(test.troubles.refused.front().peer == "n2");
    const TimePoint refused_at = test.overlay.simulation.clock().now();
    const bool is_gone = test.overlay.run([&] { return cast.outcomes[0].has_value(); }, 20s);
    CHECK(is_gone == !has_controller);
    if (!is_gone) continue;
    CHECK(test.overlay.simulation.clock().now() - refused_at < kLongestRefusal + 100ms);
    CHECK(cast.outcomes[0]->message().find("node \"n2\" is gone: its host has refused") != std::string::npos);
  }
}

TEST_CASE("a node that is asked to look for another one dials it, though no plan leads there") {
  for (const bool is_refused : {true, false}) {
    Watched test(1);
    test.pass(2s);
    CHECK(test.overlay.node(0).heard() == Peers{"n2"});
    LinkConditions line;
    line.is_refused = is_refused;
    test.overlay.simulation.set_conditions("n0", "n1", line);
    test.overlay.node(0).look_for("n1");
    test.pass(1s);
    CHECK(test.overlay.node(0).heard() == (is_refused ? Peers{"n2"} : Peers{"n1", "n2"}));
    CHECK(test.troubles.refused.size() == (is_refused ? 1U : 0U));
    CHECK(test.troubles.broken.empty());
  }
}
