// A node's memory is shared by tenants: windows of streams, and blocks whose members have
// not called yet.
#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>

#include "node/plan/installed_plan.h"
#include "node/plan/stream_windows.h"
#include "node/tenants.h"

using namespace square;
using namespace square::test;

namespace {

// n0 -> n1 with one stream of tenant a and `crowd` streams of tenant b.
std::shared_ptr<const Plan> crowded_plan(std::size_t crowd, double a_bps, double b_bps,
                                         Duration latency = std::chrono::milliseconds(25)) {
  TenantPlan plan(2);
  plan.add_link(0, 1, a_bps + static_cast<double>(crowd) * b_bps, latency);
  static_cast<void>(plan.add_chain("a", {0, 1}, a_bps));
  for (std::size_t i = 0; i < crowd; ++i) static_cast<void>(plan.add_chain("b", {0, 1}, b_bps));
  return plan.build();
}

std::size_t reserved_bytes(const InstalledPlan& plan, std::string_view tenant) {
  std::size_t bytes = 0;
  for (const LocalStream* stream : plan.streams()) {
    if (stream->tenant == tenant)
      bytes +=
          stream->window->blocks * plan.find(stream->collective)->largest_block_bytes(stream->key.session);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a total is shared by weight, and what one does not want goes to the others") {
  CHECK(share_out(90, {{100, 1}, {100, 2}}) == std::vector<double>{30, 60});
  CHECK(share_out(90, {{10, 1}, {100, 1}, {100, 1}}) == std::vector<double>{10, 40, 40});
  CHECK(share_out(90, {{10, 1}, {20, 1}}) == std::vector<double>{10, 20});
  CHECK(share_out(90, {}).empty());
}

TEST_CASE("random claims: no more than wanted, nothing left while anybody wants, even shares") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + (std::getenv("SQUARE_SEED") != nullptr ? 1 : 300); ++seed) {
    INFO("rerun with SQUARE_SEED=", seed);
    std::mt19937_64 random(seed);
    std::vector<Claim> claims;
    double wanted = 0;
    for (std::size_t i = 1 + random() % 20; i > 0; --i) {
      claims.push_back({static_cast<double>(random() % 1'000), 1.0 + static_cast<double>(random() % 4)});
      wanted += claims.back().wanted;
    }
    const auto total = static_cast<double>(random() % 6'000);
    const std::vector<double> given = share_out(total, claims);
    CHECK(std::accumulate(given.begin(), given.end(), 0.0) == doctest::Approx(std::min(total, wanted)));
    for (std::size_t i = 0; i < claims.size(); ++i) {
      CHECK(given[i] <= claims[i].wanted + 1e-9);
      for (std::size_t j = 0; j < claims.size(); ++j) {
        // Who has less than it wants has no less for its weight than anybody else.
        if (given[i] < claims[i].wanted - 1e-6)
          CHECK(given[i] / claims[i].weight >= given[j] / claims[j].weight - 1e-6);
      }
    }
  }
}

TEST_CASE("a window holds what is under way in a round trip, and more where the plan knows none") {
  const InstalledPlan fast(crowded_plan(0, 1000 * kMbps, 0), "n1", std::size_t{64} << 20U);
  // 50 ms there and back and 60 ms of slack, at 125 bytes a microsecond.
  CHECK(reserved_bytes(fast, "a") >= 125 * 110'000);
  const InstalledPlan unknown(crowded_plan(0, 1000 * kMbps, 0, Duration(0)), "n1", std::size_t{64} << 20U);
  CHECK(reserved_bytes(unknown, "a") >= 125 * 110'000);
  TenantPlan plan(2);
  plan.add_link(0, 1, kUnlimited);
  static_cast<void>(plan.add_chain("a", {0, 1}, 1000 * kMbps));
  const InstalledPlan unlimited(plan.build(), "n1", std::size_t{64} << 20U);
  CHECK(reserved_bytes(unlimited, "a") >= std::size_t{60} << 20U);
}

TEST_CASE("by default the trees of a collective over far links have all that they want") {
  // As into one of twelve sites, 350 Mbit/s over 150 ms.
  const auto plan = crowded_plan(140, 2.5 * kMbps, 2.5 * kMbps, std::chrono::milliseconds(150));
  const InstalledPlan plenty(plan, "n1", std::size_t{1} << 30U);
  const InstalledPlan usual(plan, "n1", DataPlaneOptions{}.window_bytes / 4);
  CHECK(reserved_bytes(usual, "b") == reserved_bytes(plenty, "b"));
  CHECK(reserved_bytes(usual, "b") >= std::size_t{20} << 20U);
}

TEST_CASE("five hundred streams of one tenant leave the other its part of the windows") {
  constexpr std::size_t kWindow = std::size_t{16} << 20U;
  const auto plan = crowded_plan(500, 500 * kMbps, 5 * kMbps);
  const InstalledPlan node(plan, "n1", kWindow);
  CHECK(reserved_bytes(node, "a") >= 500 * 110'000 / 8);
  CHECK(reserved_bytes(node, "a") + reserved_bytes(node, "b") <= kWindow + (kWindow / 10));
  // All nodes cut blocks alike, whatever memory they have.
  const InstalledPlan source(plan, "n0", kMinWindowBytes / 4);
  const auto block_bytes = [](const InstalledPlan& at, const LocalStream& stream) {
    return at.find(stream.collective)->block_bytes(stream.key.session, 100'000'000);
  };
  for (const LocalStream* stream : node.streams())
    CHECK(block_bytes(source, *stream) == block_bytes(node, *stream));
}

TEST_CASE("absent members of one tenant leave room for those of another") {
  DataPlaneOptions options;
  options.window_bytes = kMinWindowBytes;  // 2 MiB for blocks that wait for their member
  Overlay overlay(31, 2, options);
  TenantPlan plan(2);
  plan.add_link(0, 1, 10 * kMbps);
  const CollectiveId late = plan.add_chain("a", {0, 1}, 5 * kMbps);
  std::vector<std::unique_ptr<Broadcast>> absent;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const CollectiveId id = plan.add_chain("b", {0, 1}, 5 * kMbps / 8);
    absent.push_back(
        std::make_unique<Broadcast>(id, std::vector<std::uint32_t>{0, 1}, payload(1'000'000, i)));
  }
  REQUIRE(overlay.publish(plan.build()));
  overlay.set_members(late, {0, 1});
  for (const auto& broadcast : absent) overlay.set_members(broadcast->collective, {0, 1});
  for (const auto& broadcast : absent) broadcast->post(overlay, 0);
  pass(overlay, std::chrono::seconds(20));  // b's members stay away, and hold what they may

  Broadcast own(late, {0, 1}, payload(450'000));
  own.post(overlay, 0);
  pass(overlay, std::chrono::seconds(5));
  const TimePoint called = overlay.simulation.clock().now();
  own.post(overlay, 1);
  REQUIRE(overlay.run([&] { return own.is_over(); }));
  CHECK(own.is_right());
  // Everything waited here already: sending it again would take 0.36 s and more.
  CHECK(seconds_between(called, own.finished_at[1]) < 0.05);

  for (const auto& broadcast : absent) broadcast->post(overlay, 1);
  REQUIRE(overlay.run([&] {
    return std::ranges::all_of(absent, [](const auto& broadcast) { return broadcast->is_over(); });
  }));
  for (const auto& broadcast : absent) CHECK(broadcast->is_right());
}
