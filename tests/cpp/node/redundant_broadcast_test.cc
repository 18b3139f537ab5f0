// Broadcasts with redundancy: whichever relay is lost, nothing is sent again and no time is lost.
#include <doctest/doctest.h>

#include <cstdlib>

#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::size_t kSixNodes = 6;
constexpr std::size_t kBytes = 5'000'000;

std::shared_ptr<const Plan> mesh_plan(double link_bps, Epoch epoch = Epoch(1)) {
  PlanBuilder builder(kSixNodes, epoch);
  builder.add_redundant_mesh(link_bps);
  return builder.build();
}

// The controller's, once it knows that relay 3 is gone.
std::shared_ptr<const Plan> plan_without_relay(double link_bps) {
  PlanBuilder builder(kSixNodes, Epoch(2));
  builder.add_redundant_mesh(link_bps, {}, {3});
  return builder.build();
}

std::uint64_t blocks_resent(Overlay& overlay) {
  std::optional<NodeStatistics> statistics;
  overlay.node(0).statistics([&](const NodeStatistics& now) { statistics = now; });
  REQUIRE(overlay.run([&] { return statistics.has_value(); }));
  return statistics->blocks_resent;
}

// All lines of a node, in both directions.
enum class Loss { kNone, kBroken, kSilent };
void lose(Overlay& overlay, std::size_t node, Loss how) {
  for (std::size_t other = 0; other < kSixNodes; ++other) {
    if (other == node || how == Loss::kNone) continue;
    for (const auto& [from, to] : {std::pair(node, other), std::pair(other, node)})
      how == Loss::kBroken ? overlay.set_cut(from, to, true) : overlay.set_stalled(from, to, true);
  }
}

struct Transfer {
  double seconds = 0;  // until both destinations have all
  std::uint64_t resent = 0;
};

// What `happens` does so in the middle of the transfer.
Transfer run_broadcast(double link_bps, const std::function<void(Overlay&)>& happens) {
  Overlay overlay(1, kSixNodes);
  REQUIRE(overlay.publish(mesh_plan(link_bps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(kBytes));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  pass(overlay, from_seconds(0.3 * kBytes * kBitsPerByte / (4 * link_bps)));
  REQUIRE_FALSE(broadcast.is_over());
  happens(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  Transfer transfer;
  // The source's call ends later where a host fell silent: its transport still has blocks for that.
  for (const std::size_t rank : {1U, 2U})
    transfer.seconds = std::max(transfer.seconds, to_seconds(broadcast.finished_at[rank] - start));
  transfer.resent = blocks_resent(overlay);
  return transfer;
}

}  // namespace

TEST_CASE("four of five ways carry what is sent") {
  const Transfer transfer = run_broadcast(1 * kMbps, [](Overlay&) {});
  CHECK(transfer.seconds > 10);
  CHECK(transfer.seconds < 10 * 1.05);
  CHECK(transfer.resent == 0);
}

TEST_CASE("whichever relay is lost, nothing is sent again and no time is lost") {
  const Transfer whole = run_broadcast(1 * kMbps, [](Overlay&) {});
  for (const Loss how : {Loss::kBroken, Loss::kSilent}) {
    for (const std::size_t relay : {3U, 4U, 5U}) {
      CAPTURE(relay);
      CAPTURE(static_cast<int>(how));
      const Transfer transfer =
          run_broadcast(1 * kMbps, [&](Overlay& overlay) { lose(overlay, relay, how); });
      CHECK(transfer.resent == 0);
      CHECK(transfer.seconds < 1.05 * whole.seconds);
    }
  }
}

TEST_CASE("whichever link of a member is lost, nothing is sent again and no time is lost") {
  const Transfer whole = run_broadcast(1 * kMbps, [](Overlay&) {});
  for (const auto& [from, to] :
       {std::pair(0U, 1U), std::pair(1U, 2U), std::pair(3U, 1U), std::pair(0U, 5U)}) {
    CAPTURE(from);
    CAPTURE(to);
    const Transfer transfer =
        run_broadcast(1 * kMbps, [&](Overlay& overlay) { overlay.set_stalled(from, to, true); });
    CHECK(transfer.resent == 0);
    CHECK(transfer.seconds < 1.05 * whole.seconds);
  }
}

TEST_CASE("what runs stays with its ways when the plan goes around who was lost") {
  const Transfer whole = run_broadcast(1 * kMbps, [](Overlay&) {});
  const Transfer transfer = run_broadcast(1 * kMbps, [](Overlay& overlay) {
    lose(overlay, 3, Loss::kBroken);
    pass(overlay, std::chrono::milliseconds(500));
    REQUIRE(overlay.publish(plan_without_relay(1 * kMbps), true));
  });
  CHECK(transfer.resent == 0);
  CHECK(transfer.seconds < 1.05 * whole.seconds);
}

TEST_CASE("where more is lost than the code has ways for, the rest is sent again") {
  for (const Loss how : {Loss::kBroken, Loss::kSilent}) {
    CAPTURE(static_cast<int>(how));
    const Transfer transfer = run_broadcast(1 * kMbps, [&](Overlay& overlay) {
      lose(overlay, 3, how);
      lose(overlay, 4, how);
      pass(overlay, std::chrono::milliseconds(500));
      REQUIRE(overlay.publish(plan_without_relay(1 * kMbps), true));
      lose(overlay, 4, Loss::kNone);
      for (std::size_t other = 0; other < kSixNodes; ++other) {
        if (other == 4) continue;
        for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>(4, other), {other, 4}}) {
          overlay.set_cut(from, to, false);
          overlay.set_stalled(from, to, false);
        }
      }
    });
    CHECK(transfer.seconds < 40);
  }
}

TEST_CASE("redundant broadcasts of any length") {
  Overlay overlay(2, kSixNodes);
  REQUIRE(overlay.publish(mesh_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  OperationId operation(0);
  for (const std::size_t bytes : {0U, 1U, 63U, 8191U, 8192U, 8193U, 24'577U, 32'768U, 40'961U, 1'000'003U}) {
    CAPTURE(bytes);
    Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(bytes));
    broadcast.operation = operation;
    operation = OperationId(operation.value() + 1);
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
  }
  CHECK(blocks_resent(overlay) == 0);
}

TEST_CASE("whatever is lost of what is redundant, no wrong byte is delivered") {
  const std::uint64_t first = seed_from_environment(1);
  const char* const many = std::getenv("SQUARE_SEEDS");
  const std::uint64_t seeds = many != nullptr ? std::strtoull(many, nullptr, 10) : 200;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Overlay overlay(seed, kSixNodes);
    LinkConditions lines;
    lines.delay = std::chrono::milliseconds(random() % 40);
    lines.loss = static_cast<double>(random() % 3) * 0.01;
    lines.duplication = random() % 4 == 0 ? 0.01 : 0.0;
    lines.corruption = random() % 4 == 0 ? 0.001 : 0.0;
    overlay.simulation.set_default_conditions(lines);
    REQUIRE(overlay.publish(mesh_plan((5 + static_cast<double>(random() % 50)) * kMbps)));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    Cuts cuts(overlay, kSixNodes, seed);
    for (std::uint64_t operation = 0; operation < 2; ++operation) {
      Broadcast broadcast(CollectiveId(0), {0, 1, 2}, random_bytes(random, random() % 1'000'000));
      broadcast.operation = OperationId(operation);
      broadcast.post_all(overlay);
      if (random() % 3 != 0) cuts.rage([&] { return broadcast.is_over(); }, 8);
      REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
      CHECK(broadcast.is_right());
    }
  }
}
