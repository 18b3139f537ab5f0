// What simulated lines and clocks do to frames and nodes.
#include "square/simulation.h"

#include <doctest/doctest.h>

#include <vector>

using namespace square;
using namespace std::chrono_literals;

namespace {

struct Ear final : TransportHandler {
  void on_link_up(LinkHandle opened, LinkEnd, std::string_view) override { link = opened; }
  void on_frame(LinkHandle, Frame frame) override { heard.push_back(frame.header.hop_sequence); }
  void on_sent(LinkHandle) override {}
  void on_link_down(LinkHandle, Status why) override { reasons.push_back(why.code()); }
  LinkHandle link{0};
  std::vector<std::uint64_t> heard;
  std::vector<StatusCode> reasons;
};

// A link from a to b.
struct TwoEnds {
  TwoEnds() {
    REQUIRE(a->start(at_a).is_ok());
    REQUIRE(b->start(at_b).is_ok());
    a->open_link("b", b->address());
    run(1s);
  }
  ~TwoEnds() {
    a->stop();
    b->stop();
  }
  void run(Duration time) {
    simulation.run_until([] { return false; }, simulation.clock().now() + time);
  }
  void set(const LinkConditions& line) { simulation.set_conditions("a", "b", line); }
  void say(Transport& from, LinkHandle link, std::uint64_t number) {
    Frame frame;
    frame.header.hop_sequence = number;
    frame.payload = Buffer::copy_of(std::vector<std::byte>(100));
    from.send(link, frame);
  }

  Simulation simulation{1};
  Ear at_a;
  Ear at_b;
  std::unique_ptr<Transport> a = simulation.make_transport("a");
  std::unique_ptr<Transport> b = simulation.make_transport("b");
};

}  // namespace

TEST_CASE("simulation: what a mute end says arrives when it is not mute any more") {
  for (const LinkEnd mute : {LinkEnd::kTail, LinkEnd::kHead}) {
    TwoEnds ends;
    LinkConditions line;
    line.mute = mute;
    ends.set(line);
    ends.say(*ends.a, ends.at_a.link, 1);
    ends.say(*ends.b, ends.at_b.link, 2);
    ends.run(1s);
    CHECK(ends.at_b.heard.size() == (mute == LinkEnd::kTail ? 0 : 1));
    CHECK(ends.at_a.heard.size() == (mute == LinkEnd::kHead ? 0 : 1));
    ends.set({});
    ends.run(1s);
    CHECK(ends.at_b.heard == std::vector<std::uint64_t>{1});
    CHECK(ends.at_a.heard == std::vector<std::uint64_t>{2});
  }
}

TEST_CASE("simulation: a damaged frame breaks the link, a doubled one arrives twice") {
  TwoEnds ends;
  LinkConditions line;
  line.duplication = 1.0;
  ends.set(line);
  ends.say(*ends.a, ends.at_a.link, 1);
  ends.run(1s);
  CHECK(ends.at_b.heard == std::vector<std::uint64_t>{1, 1});
  line = {};
  line.corruption = 1.0;
  ends.set(line);
  ends.say(*ends.a, ends.at_a.link, 2);
  ends.run(1s);
  CHECK(ends.at_b.heard.size() == 2);
  CHECK(ends.at_b.reasons == std::vector{StatusCode::kDataLoss});
  CHECK(ends.at_a.reasons == std::vector{StatusCode::kDataLoss});
}

TEST_CASE("simulation: what arrives at the very moment of a look waits behind what came before") {
  TwoEnds ends;
  ends.b->set_patience(10ms);
  LinkConditions line;
  line.delay = 8ms;
  ends.set(line);
  const TimePoint look = tick_after(ends.simulation.clock().now() + 20ms, 10ms);
  ends.run(look - 9ms - ends.simulation.clock().now());
  ends.say(*ends.a, ends.at_a.link, 1);
  ends.run(1ms);
  ends.say(*ends.a, ends.at_a.link, 2);  // is there when the look is
  ends.run(1s);
  CHECK(ends.at_b.heard == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("simulation: a clock that steps ahead is that of one node, and timers go by it") {
  Simulation simulation(1);
  const auto clock = simulation.make_clock("a");
  const auto executor = simulation.make_executor("a");
  CHECK(clock->now() == simulation.clock().now());
  simulation.step_clock("a", 10s);
  CHECK(clock->now() == simulation.clock().now() + 10s);
  bool is_over = false;
  executor->post_at(clock->now() + 1s, [&] { is_over = true; });
  const TimePoint begin = simulation.clock().now();
  CHECK_FALSE(simulation.run_until([&] { return is_over; }, begin + 900ms));
  CHECK(simulation.run_until([&] { return is_over; }, begin + 1100ms));
}

TEST_CASE("simulation: what a pause puts off happens before what comes later, at its very end too") {
  using std::chrono::milliseconds;
  Simulation simulation(1);
  const auto executor = simulation.make_executor("a");
  std::string said;
  const TimePoint start = simulation.clock().now();
  executor->post_at(start + milliseconds(6), [&] { said += "2"; });
  executor->post_at(start + milliseconds(4), [&] { said += "1"; });
  executor->post_at(start + milliseconds(10), [&] { said += "3"; });
  simulation.pause("a", milliseconds(10));
  simulation.run_until([] { return false; }, start + milliseconds(20));
  CHECK(said == "123");
}
