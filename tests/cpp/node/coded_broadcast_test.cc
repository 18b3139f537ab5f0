// Broadcasts over codes: twice what a link carries on the butterfly, every bit as it was, whatever happens.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>

#include "base/planted.h"
#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::size_t kNodes = 7;

std::shared_ptr<const Plan> butterfly_plan(double link_bps, FieldKind field = FieldKind::kGf256,
                                           Epoch epoch = Epoch(1)) {
  PlanBuilder builder(kNodes, epoch);
  builder.add_butterfly(link_bps, field);
  return builder.build();
}

NodeStatistics statistics_of(Overlay& overlay, std::size_t node) {
  std::optional<NodeStatistics> statistics;
  overlay.node(node).statistics([&](const NodeStatistics& now) { statistics = now; });
  REQUIRE(overlay.run([&] { return statistics.has_value(); }));
  return *statistics;
}

void check_nothing_is_held(Overlay& overlay) {
  pass(overlay, std::chrono::seconds(15));
  for (std::size_t node = 0; node < kNodes; ++node) {
    CHECK(statistics_of(overlay, node).bytes_in_transit == 0);
  }
}

}  // namespace

TEST_CASE("a coded broadcast takes half of what one link would") {
  Overlay overlay(1, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(5'000'000));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  const double planned = 2.0;
  for (const TimePoint end : broadcast.finished_at) {
    const double taken = to_seconds(end - start);
    CHECK(taken > planned);
    CHECK(taken < 1.1 * planned);
  }
  CHECK(statistics_of(overlay, 0).blocks_resent == 0);
  check_nothing_is_held(overlay);
}

TEST_CASE("coded broadcasts of any length") {
  Overlay overlay(2, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  OperationId operation(0);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 8191U, 8192U, 8193U, 16'384U, 24'577U, 1'000'003U}) {
    CAPTURE(bytes);
    Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(bytes));
    broadcast.operation = operation;
    operation = OperationId(operation.value() + 1);
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
  }
  CHECK(statistics_of(overlay, 0).blocks_resent == 0);
  check_nothing_is_held(overlay);
}

TEST_CASE("several members on a node, and one that calls late") {
  Overlay overlay(3, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6, 5, 6});
  Broadcast broadcast(CollectiveId(0), {0, 5, 6, 5, 6}, payload(3'000'001));
  for (const std::uint32_t rank : {0U, 1U, 3U, 4U}) broadcast.post(overlay, rank);
  pass(overlay, std::chrono::seconds(3));
  CHECK_FALSE(broadcast.is_over());
  broadcast.post(overlay, 2);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  check_nothing_is_held(overlay);
}

TEST_CASE("where nothing is added any more the rest goes by the tree") {
  Overlay overlay(4, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  SUBCASE("a link stands still") { overlay.set_stalled(3, 4, true); }
  SUBCASE("a link breaks") { overlay.set_cut(3, 4, true); }
  SUBCASE("a term does not come") { overlay.set_cut(2, 3, true); }
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(2'000'000));
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(to_seconds(broadcast.finished_at[1] - TimePoint{}) < 30);
}

TEST_CASE("an operation on a code whose windows are full already goes by the tree") {
  Overlay overlay(8, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  overlay.set_cut(2, 3, true);
  for (std::uint64_t operation = 0; operation < 3; ++operation) {
    Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(500'000 + operation));
    broadcast.operation = OperationId(operation);
    const TimePoint start = overlay.simulation.clock().now();
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
    CHECK(to_seconds(broadcast.finished_at[1] - start) < 10);
  }
}

TEST_CASE("a running broadcast moves from trees to a code and back") {
  Overlay overlay(5, kNodes);
  const auto trees = [](Epoch epoch) {
    PlanBuilder builder(kNodes, epoch);
    for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 5}, {2, 6}})
      builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 10 * kMbps);
    builder.add_broadcast(0, {0, 5, 6}, {{{{0, 1}, {1, 5}, {0, 2}, {2, 6}}, 10 * kMbps}});
    return builder.build();
  };
  REQUIRE(overlay.publish(trees(Epoch(1))));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(10'000'000));
  broadcast.post_all(overlay);
  pass(overlay, std::chrono::seconds(1));
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps, FieldKind::kGf256, Epoch(2)), true));
  pass(overlay, std::chrono::seconds(1));
  REQUIRE(overlay.publish(trees(Epoch(3)), true));
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  check_nothing_is_held(overlay);
}

TEST_CASE("floats come back nearly as they were") {
  Overlay overlay(6, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(100 * kMbps, FieldKind::kFloat32)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  std::vector<float> numbers(250'001);
  std::mt19937_64 random(1);
  for (float& number : numbers) number = static_cast<float>(random() % 2000) / 1000.0F - 1.0F;
  std::vector<std::byte> bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, bytes);
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  for (const std::size_t rank : {1U, 2U}) {
    std::vector<float> received(numbers.size());
    std::memcpy(received.data(), broadcast.buffers[rank].data(), bytes.size());
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(received[i] - numbers[i])));
    CHECK(worst < 1e-6);
    CHECK(worst > 0);  // it was coded
  }
}

TEST_CASE("a sum that is spoiled where it is made is found, and its blocks come another way") {
  Overlay overlay(7, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(1'000'000));
  planted_bug = Bug::kSumSpoiled;
  broadcast.post_all(overlay);
  pass(overlay, std::chrono::milliseconds(200));
  planted_bug = Bug::kNone;
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(statistics_of(overlay, 0).blocks_resent > 0);
  CHECK(statistics_of(overlay, 5).frames_refused > 0);
  check_nothing_is_held(overlay);
}

TEST_CASE("whatever is lost, late, damaged or broken, no wrong byte is delivered") {
  const std::uint64_t first = seed_from_environment(1);
  const char* const many = std::getenv("SQUARE_SEEDS");
  // 500 take some 10 s; the sanitizers ask for fewer.
  const std::uint64_t seeds = many != nullptr ? std::strtoull(many, nullptr, 10) : 500;
  std::uint64_t resent = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Overlay overlay(seed, kNodes);
    LinkConditions lines;
    lines.delay = std::chrono::milliseconds(random() % 40);
    lines.jitter = std::chrono::milliseconds(random() % 2 * 10);
    lines.loss = static_cast<double>(random() % 3) * 0.01;
    lines.duplication = random() % 4 == 0 ? 0.01 : 0.0;
    lines.corruption = random() % 4 == 0 ? 0.001 : 0.0;
    overlay.simulation.set_default_conditions(lines);
    REQUIRE(overlay.publish(butterfly_plan((5 + static_cast<double>(random() % 50)) * kMbps)));
    overlay.set_members(CollectiveId(0), {0, 5, 6});
    Cuts cuts(overlay, kNodes, seed);
    // A node that adds makes mistakes for a while.
    planted_bug = random() % 4 == 0 ? Bug::kSumSpoiled : Bug::kNone;
    for (std::uint64_t operation = 0; operation < 2; ++operation) {
      Broadcast broadcast(CollectiveId(0), {0, 5, 6}, random_bytes(random, random() % 1'000'000));
      broadcast.operation = OperationId(operation);
      broadcast.post_all(overlay);
      if (random() % 3 != 0) cuts.rage([&] { return broadcast.is_over(); }, 8);
      REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
      CHECK(broadcast.is_right());
      planted_bug = Bug::kNone;
    }
    resent += statistics_of(overlay, 0).blocks_resent;
  }
  MESSAGE(resent, " blocks were sent again over ", seeds, " seeds");
  CHECK(resent > 0);
}
