// What one operation promises, each promise in a network made for it.
#include <doctest/doctest.h>

#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

// n0 -> n1 -> n2, with n1 a destination too.
std::shared_ptr<const Plan> chain_plan(double rate_bps, Epoch epoch = Epoch(1)) {
  PlanBuilder builder(3, epoch);
  builder.add_link(0, 1, rate_bps);
  builder.add_link(1, 2, rate_bps);
  builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, rate_bps}});
  return builder.build();
}

double seconds_since(TimePoint start, TimePoint end) { return to_seconds(end - start); }

}  // namespace

TEST_CASE("a paced broadcast takes what the plan says, headers included") {
  Overlay overlay(1, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(2'500'000));
  overlay.run([] { return false; }, std::chrono::seconds(1));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  const double planned = 2.0;
  for (const TimePoint end : broadcast.finished_at) {
    CHECK(seconds_since(start, end) > planned);
    CHECK(seconds_since(start, end) < 1.05 * planned);
  }
}

// What is under way on a stream of the plan before the last is refused, and goes again at once.
TEST_CASE("plans that follow one another cost a broadcast a twentieth of a second each at most") {
  constexpr std::uint32_t kMoves = 4;
  const auto seconds = [&](std::uint32_t moves) {
    Overlay overlay(5, 3);
    overlay.simulation.set_default_conditions({.delay = std::chrono::milliseconds(20)});
    REQUIRE(overlay.publish(chain_plan(100 * kMbps)));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    pass(overlay, std::chrono::seconds(1));
    Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(2'500'000));
    const TimePoint start = overlay.simulation.clock().now();
    broadcast.post_all(overlay);
    pass(overlay, std::chrono::milliseconds(150));
    for (std::uint32_t epoch = 2; epoch < 2 + moves; ++epoch)
      REQUIRE(overlay.publish(chain_plan(100 * kMbps, Epoch(epoch)), true));
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
    return seconds_since(start, std::ranges::max(broadcast.finished_at));
  };
  const double undisturbed = seconds(0);
  const double moved = seconds(kMoves);
  MESSAGE("undisturbed ", undisturbed, " s, with ", kMoves, " moves ", moved, " s");
  CHECK(moved < undisturbed + 0.05 * kMoves);
}

// Else others would not have theirs.
TEST_CASE("a broadcast under way goes on at the rates of a new plan") {
  Overlay overlay(5, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(2'500'000));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  pass(overlay, std::chrono::milliseconds(500));
  REQUIRE(overlay.publish(chain_plan(5 * kMbps, Epoch(2))));
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  // A quarter in the first half of a second, the rest at half the rate.
  const double planned = 0.5 + 2 * 1.5;
  const double took = seconds_since(start, std::ranges::max(broadcast.finished_at));
  CHECK(took > 0.95 * planned);
  CHECK(took < 1.05 * planned);
}

TEST_CASE("two streams of unequal rate carry their sum") {
  Overlay overlay(2, 3);
  PlanBuilder builder(3);
  builder.add_link(0, 2, 2 * kMbps);
  builder.add_link(0, 1, 18 * kMbps);
  builder.add_link(1, 2, 18 * kMbps);
  builder.add_broadcast(0, {0, 2}, {{{{0, 2}}, 2 * kMbps}, {{{0, 1}, {1, 2}}, 18 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 2});
  overlay.run([] { return false; }, std::chrono::seconds(1));
  const TimePoint start = overlay.simulation.clock().now();
  Broadcast broadcast(CollectiveId(0), {0, 2}, payload(5'000'000));
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(seconds_since(start, broadcast.finished_at[1]) < 1.05 * 2.0);
}

// Its first link takes a whole window at once, and the second has seconds to do.
TEST_CASE("a thin stream does not hold up the end") {
  PlanBuilder builder(3);
  const Duration latency = std::chrono::milliseconds(100);
  builder.add_link(0, 1, 1 * kMbps, latency);
  builder.add_link(0, 2, 10 * kMbps, latency);
  builder.add_link(2, 1, 0.1 * kMbps, latency);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 1 * kMbps}, {{{0, 2}, {2, 1}}, 0.1 * kMbps}});
  Overlay overlay(4, 3);
  overlay.simulation.set_default_conditions({.delay = latency});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  Broadcast broadcast(CollectiveId(0), {0, 1}, payload(500'000));
  pass(overlay, std::chrono::seconds(1));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  const double alone = 4.0;  // by the wide stream
  CHECK(seconds_since(start, broadcast.finished_at[1]) < 1.1 * alone);
}

// Posted behind another, it begins while the wide stream has no room and the thin one has.
TEST_CASE("a thin stream does not hold up short broadcasts that follow one another") {
  PlanBuilder builder(3);
  builder.add_link(0, 1, 40 * kMbps);
  builder.add_link(0, 2, 40 * kMbps);
  builder.add_link(2, 1, 0.4 * kMbps);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 40 * kMbps}, {{{0, 2}, {2, 1}}, 0.4 * kMbps}});
  Overlay overlay(4, 3);
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  pass(overlay, std::chrono::seconds(5));
  std::vector<Broadcast> broadcasts;
  for (std::uint32_t number = 0; number < 8; ++number) {
    broadcasts.emplace_back(CollectiveId(0), std::vector<std::uint32_t>{0, 1}, payload(500'000));
    broadcasts.back().operation = OperationId(number);
  }
  const TimePoint start = overlay.simulation.clock().now();
  for (std::size_t number = 0; number < broadcasts.size(); ++number) {
    broadcasts[number].post_all(overlay);
    // Two at a time.
    if (number > 0) REQUIRE(overlay.run([&] { return broadcasts[number - 1].is_over(); }));
  }
  REQUIRE(overlay.run([&] { return broadcasts.back().is_over(); }));
  for (const Broadcast& broadcast : broadcasts) CHECK(broadcast.is_right());
  const double alone = 8 * 0.1;  // by the wide stream
  CHECK(seconds_since(start, overlay.simulation.clock().now()) < 1.1 * alone);
}

// As the parts of a ring are: each alone would be through before a block on the thin stream is, and all
// together would not. What is in line for longer than a second does not take all its room either.
TEST_CASE("a thin stream carries its part of many short broadcasts, and holds none up") {
  double thin_bps = 0;
  SUBCASE("a tenth") { thin_bps = 0.8 * kMbps; }
  SUBCASE("a hundredth") { thin_bps = 0.08 * kMbps; }
  const double wide_bps = 7.7 * kMbps;
  PlanBuilder builder(4);
  builder.add_link(0, 1, wide_bps);
  builder.add_link(0, 2, 40 * kMbps);
  builder.add_link(2, 3, 40 * kMbps);
  builder.add_link(3, 1, thin_bps);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, wide_bps}, {{{0, 2}, {2, 3}, {3, 1}}, thin_bps}});
  Overlay overlay(4, 4);
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  pass(overlay, std::chrono::seconds(5));
  constexpr std::uint32_t kCount = 40;
  constexpr std::size_t kBytes = 227'272;
  std::vector<Broadcast> broadcasts;
  for (std::uint32_t number = 0; number < kCount; ++number) {
    broadcasts.emplace_back(CollectiveId(0), std::vector<std::uint32_t>{0, 1}, payload(kBytes));
    broadcasts.back().operation = OperationId(number);
  }
  const TimePoint start = overlay.simulation.clock().now();
  for (std::size_t number = 0; number < kCount; ++number) {
    broadcasts[number].post_all(overlay);
    // Sixteen at a time.
    if (number >= 15) REQUIRE(overlay.run([&] { return broadcasts[number - 15].is_over(); }));
  }
  REQUIRE(overlay.run([&] {
    return std::ranges::all_of(broadcasts, [](const Broadcast& broadcast) { return broadcast.is_over(); });
  }));
  const double each = 8.0 * kBytes / (wide_bps + thin_bps);
  for (std::size_t number = 0; number < kCount; ++number) {
    CAPTURE(number);
    CHECK(broadcasts[number].is_right());
    CHECK(seconds_since(start, broadcasts[number].finished_at[1]) <
          1.07 * each * static_cast<double>(number + 1) + 0.6);
  }
}

TEST_CASE("a broadcast of nothing completes on every member, and not before all have called it") {
  Overlay overlay(3, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, {});
  broadcast.post(overlay, 0);
  broadcast.post(overlay, 1);
  overlay.run([] { return false; }, std::chrono::seconds(5));
  CHECK_FALSE(broadcast.outcomes[0].has_value());
  broadcast.post(overlay, 2);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
}

TEST_CASE("broadcasts of nothing wait for a member that calls late, several at once") {
  Overlay overlay(13, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  // Blocks without bytes are held alone, then beside one that has some.
  std::uint32_t operation = 0;
  for (const std::vector<std::size_t>& sizes : {std::vector<std::size_t>{0, 0}, {0, 1'000, 0}}) {
    std::vector<Broadcast> broadcasts;
    for (const std::size_t size : sizes) {
      broadcasts.emplace_back(CollectiveId(0), std::vector<std::uint32_t>{0, 1, 2}, payload(size));
      broadcasts.back().operation = OperationId(operation++);
    }
    for (Broadcast& broadcast : broadcasts) {
      broadcast.post(overlay, 0);
      broadcast.post(overlay, 1);
    }
    overlay.run([] { return false; }, std::chrono::seconds(3));
    for (Broadcast& broadcast : broadcasts) broadcast.post(overlay, 2);
    for (const Broadcast& broadcast : broadcasts) {
      REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
      CHECK(broadcast.is_right());
    }
  }
  std::optional<NodeStatistics> late;
  overlay.node(2).statistics([&](NodeStatistics statistics) { late = statistics; });
  REQUIRE(overlay.run([&] { return late.has_value(); }));
  CHECK(late->bytes_in_transit == 0);
}

TEST_CASE("relaying does not wait for the relay's own member") {
  DataPlaneOptions options;
  options.window_bytes = kMinWindowBytes;  // 2 MiB to keep blocks for the late member
  Overlay overlay(4, 3, options);
  REQUIRE(overlay.publish(chain_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(20'000'000));
  broadcast.post(overlay, 0);
  broadcast.post(overlay, 2);
  REQUIRE(overlay.run([&] { return broadcast.outcomes[2].has_value(); }));
  CHECK(broadcast.buffers[2] == broadcast.buffers[0]);
  CHECK_FALSE(broadcast.outcomes[0].has_value());
  broadcast.post(overlay, 1);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  std::optional<NodeStatistics> relay;
  overlay.node(1).statistics([&](NodeStatistics statistics) { relay = statistics; });
  REQUIRE(overlay.run([&] { return relay.has_value(); }));
  CHECK(relay->bytes_in_transit_max <= options.window_bytes);
  CHECK(relay->bytes_in_transit == 0);
}

TEST_CASE("a source whose only destination is late does not send in vain") {
  Overlay overlay(5, 2, [] {
    DataPlaneOptions options;
    options.window_bytes = kMinWindowBytes;
    return options;
  }());
  PlanBuilder builder(2);
  builder.add_link(0, 1, 1000 * kMbps);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 1000 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  Broadcast broadcast(CollectiveId(0), {0, 1}, payload(30'000'000));
  broadcast.post(overlay, 0);
  overlay.run([] { return false; }, std::chrono::seconds(20));
  std::optional<NodeStatistics> source;
  overlay.node(0).statistics([&](NodeStatistics statistics) { source = statistics; });
  REQUIRE(overlay.run([&] { return source.has_value(); }));
  CHECK(source->bytes_sent < 15'000'000);
  broadcast.post(overlay, 1);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
}

TEST_CASE("ranks share a node, the source's included") {
  Overlay overlay(6, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  const std::vector<std::uint32_t> nodes{2, 0, 0, 1, 2, 1};
  overlay.set_members(CollectiveId(0), nodes);
  Broadcast broadcast(CollectiveId(0), nodes, payload(100'000), 2);
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
}

TEST_CASE("a member with another size ends the operation on all, named") {
  Overlay overlay(7, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(100'000));
  broadcast.buffers[2].resize(99'999);
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  for (const auto& outcome : broadcast.outcomes) {
    CHECK(outcome->code() == StatusCode::kInvalidArgument);
    CHECK(
        outcome->message().find("rank 2 on node \"n2\" posted a buffer of 99999 bytes where 100000 arrive") !=
        std::string::npos);
  }
  // The group is poisoned: the next call fails on every member, at once.
  Broadcast next(CollectiveId(0), {0, 1, 2}, payload(100));
  next.operation = OperationId(1);
  next.post_all(overlay);
  REQUIRE(overlay.run([&] { return next.is_over(); }));
  for (const auto& outcome : next.outcomes) CHECK(outcome->code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("who never calls is found out by the timeout of the others") {
  Overlay overlay(8, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(100'000));
  broadcast.timeout = std::chrono::seconds(3);
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post(overlay, 0);
  broadcast.post(overlay, 1);
  REQUIRE(overlay.run([&] { return broadcast.outcomes[0].has_value(); }));
  CHECK(broadcast.outcomes[0]->code() == StatusCode::kDeadlineExceeded);
  CHECK(broadcast.outcomes[0]->message().find("\"n2\"") != std::string::npos);
  CHECK(seconds_since(start, broadcast.finished_at[0]) < 4.0);
  CHECK(broadcast.outcomes[1]->is_ok());  // its own result was complete
}

TEST_CASE("a member that is gone ends the operation, named, on every member within 3.5 s") {
  Overlay overlay(9, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(5'000'000));
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::seconds(1));
  const TimePoint killed = overlay.simulation.clock().now();
  overlay.transport(2).stop();
  REQUIRE(overlay.run([&] { return broadcast.outcomes[0] && broadcast.outcomes[1]; }));
  CHECK(seconds_since(killed, overlay.simulation.clock().now()) < 3.5);
  for (const std::size_t rank : {0U, 1U}) {
    CHECK(broadcast.outcomes[rank]->code() == StatusCode::kUnavailable);
    CHECK(broadcast.outcomes[rank]->message().find("node \"n2\" is gone") != std::string::npos);
  }
}

TEST_CASE("a line that breaks ends nothing: what runs goes on when it is back, at its rate") {
  Overlay overlay(9, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(5'000'000));  // 4 s
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::seconds(1));
  overlay.set_cut(1, 2, true);
  overlay.run([] { return false; }, std::chrono::seconds(5));
  CHECK_FALSE(broadcast.is_over());
  overlay.set_cut(1, 2, false);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  // 4 s of data, 5 s without the line, and at most 1 + 1 s until somebody dials and is answered.
  CHECK(seconds_since(start, overlay.simulation.clock().now()) < 4.2 + 5.0 + 2.0);
}

TEST_CASE("what was under way on a line that breaks goes over another stream") {
  Overlay overlay(9, 3);
  PlanBuilder builder(3);
  for (const auto& [from, to] : {std::pair(0U, 1U), std::pair(0U, 2U), std::pair(2U, 1U)})
    builder.add_link(from, to, 10 * kMbps);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 10 * kMbps}, {{{0, 2}, {2, 1}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1});
  Broadcast broadcast(CollectiveId(0), {0, 1}, payload(5'000'000));  // 2 s
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::seconds(1));
  overlay.set_cut(0, 1, true);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(seconds_since(start, overlay.simulation.clock().now()) < 3.5);
}

TEST_CASE("who waits in vain for a line says so") {
  Overlay overlay(9, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(5'000'000));
  broadcast.timeout = std::chrono::seconds(6);
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::seconds(1));
  overlay.set_cut(0, 1, true);
  REQUIRE(overlay.run([&] { return broadcast.outcomes[0].has_value(); }));
  CHECK(broadcast.outcomes[0]->code() == StatusCode::kDeadlineExceeded);
  const std::string& said = broadcast.outcomes[0]->message();
  CHECK_MESSAGE(
      said.find("; link \"n0\" -> \"n1\" has been down for 5.0 s: the line is cut") != std::string::npos,
      said);
}

TEST_CASE("an operation goes on under a new plan, and starts under the newest") {
  Overlay overlay(10, 3);
  REQUIRE(overlay.publish(chain_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(5'000'000));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  for (std::uint32_t epoch = 2; epoch < 6; ++epoch) {
    overlay.run([] { return false; }, std::chrono::milliseconds(600));
    REQUIRE(overlay.publish(chain_plan(10 * kMbps, Epoch(epoch))));
  }
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(seconds_since(start, broadcast.finished_at[2]) < 10.0);
  Broadcast next(CollectiveId(0), {0, 1, 2}, payload(1'000));
  next.operation = OperationId(1);
  next.post_all(overlay);
  REQUIRE(overlay.run([&] { return next.is_over(); }));
  CHECK(next.is_right());
}

TEST_CASE("stopping a node ends what runs on it, and its peers learn why") {
  Overlay overlay(11, 3);
  REQUIRE(overlay.publish(chain_plan(1 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(5'000'000));
  broadcast.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::seconds(1));
  bool stopped = false;
  overlay.node(0).stop([&] { stopped = true; });
  bool stopped_again = false;
  overlay.node(0).stop([&] { stopped_again = stopped; });  // waits for the same
  REQUIRE(overlay.run([&] { return broadcast.is_over() && stopped_again; }, std::chrono::seconds(5)));
  for (const auto& outcome : broadcast.outcomes) CHECK(outcome->code() == StatusCode::kCancelled);
}

TEST_CASE("calls that cannot be right are refused at once") {
  Overlay overlay(12, 3);
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(10));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  broadcast.post(overlay, 0);  // no plan yet
  REQUIRE(overlay.run([&] { return broadcast.outcomes[0].has_value(); }));
  CHECK(broadcast.outcomes[0]->code() == StatusCode::kNotFound);
  REQUIRE(overlay.publish(chain_plan(1 * kMbps)));
  MemberOperation stranger;
  stranger.collective = CollectiveId(0);
  stranger.rank = Rank(2);
  std::optional<Status> outcome;
  stranger.done = [&](Status status) { outcome = std::move(status); };
  overlay.node(0).post(stranger);
  REQUIRE(overlay.run([&] { return outcome.has_value(); }));
  CHECK(outcome->code() == StatusCode::kInvalidArgument);
}
