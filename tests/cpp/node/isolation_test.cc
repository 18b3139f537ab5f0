// What one tenant does is no other tenant's loss: on links, at the ingress of a node, and
// where receivers stall. In virtual time, so that rates are exact.
#include <doctest/doctest.h>

#include "node/tenants.h"
#include "transport/pacing/wire_cost.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::size_t kGreedySessions = 64;

// The payload of a link that carries blocks of this size at `bps` for `seconds`.
double payload_bytes(double bps, double seconds, std::size_t block) {
  return bps * seconds * static_cast<double>(block) / wire_bits(block);
}

// Tenant a has one broadcast from n0 to n1, tenant b has 64 of them.
struct SharedLink {
  SharedLink(double capacity_bps, double a_bps, double b_bps) : overlay(21, 2) {
    TenantPlan plan(2);
    plan.add_link(0, 1, capacity_bps);
    a = plan.add_chain("a", {0, 1}, a_bps);
    for (std::size_t i = 0; i < kGreedySessions; ++i)
      b.push_back(plan.add_chain("b", {0, 1}, b_bps / kGreedySessions));
    ready = overlay.publish(plan.build());
    overlay.set_members(a, {0, 1});
    for (const CollectiveId id : b) overlay.set_members(id, {0, 1});
    pass(overlay, std::chrono::seconds(1));
  }

  // Every session of b is given `bytes` at once.
  void start_b(std::size_t bytes) {
    for (const CollectiveId id : b) {
      greedy.push_back(std::make_unique<Broadcast>(id, std::vector<std::uint32_t>{0, 1},
                                                   std::vector<std::byte>(bytes, std::byte{1})));
      greedy.back()->post_all(overlay);
    }
  }
  void stop_b() {
    for (const auto& broadcast : greedy) overlay.node(0).cancel(broadcast->collective, OperationId(0));
  }

  Overlay overlay;
  CollectiveId a;
  std::vector<CollectiveId> b;
  std::vector<std::unique_ptr<Broadcast>> greedy;
  bool ready = false;
};

}  // namespace

TEST_CASE("64 sessions with ten times their share leave the neighbour its planned rate") {
  SharedLink link(200 * kMbps, 90 * kMbps, 110 * kMbps);
  REQUIRE(link.ready);
  link.start_b(10 * static_cast<std::size_t>(110e6 * 1.5 / 8) / kGreedySessions);
  pass(link.overlay, std::chrono::milliseconds(200));
  const auto size = static_cast<std::size_t>(90e6 * 1.5 / 8);
  Broadcast own(link.a, {0, 1}, payload(size));
  const TimePoint start = link.overlay.simulation.clock().now();
  own.post_all(link.overlay);
  REQUIRE(link.overlay.run([&] { return own.is_over(); }));
  CHECK(own.is_right());
  const double rate =
      wire_bits(112'500) / 112'500 * static_cast<double>(size) / seconds_between(start, own.finished_at[1]);
  CHECK(rate >= 0.99 * 90 * kMbps);
}

TEST_CASE("when the greedy tenant stops, the other has the link at once") {
  SharedLink link(200 * kMbps, 90 * kMbps, 110 * kMbps);
  REQUIRE(link.ready);
  link.start_b(1'000'000);
  Broadcast own(link.a, {0, 1}, payload(60'000'000));
  own.post_all(link.overlay);
  pass(link.overlay, std::chrono::seconds(1));
  link.stop_b();
  const std::uint64_t before = statistics_of(link.overlay, 1).bytes_delivered;
  pass(link.overlay, std::chrono::seconds(1));
  const std::uint64_t after = statistics_of(link.overlay, 1).bytes_delivered;
  CHECK(static_cast<double>(after - before) >= 0.95 * payload_bytes(200 * kMbps, 1, 112'500));
  REQUIRE_FALSE(own.is_over());
}

TEST_CASE("what is idle is shared between tenants, not between sessions") {
  SharedLink link(200 * kMbps, 40 * kMbps, 40 * kMbps);
  REQUIRE(link.ready);
  link.start_b(1'000'000);
  const auto size = static_cast<std::size_t>(100e6 * 3 / 8);
  Broadcast own(link.a, {0, 1}, payload(size));
  const TimePoint start = link.overlay.simulation.clock().now();
  own.post_all(link.overlay);
  REQUIRE(link.overlay.run([&] { return own.is_over(); }));
  // 120 of 200 are idle: half of it makes 100.
  CHECK(seconds_between(start, own.finished_at[1]) < 1.05 * 3);
  CHECK(seconds_between(start, own.finished_at[1]) > 0.95 * 3);
}

TEST_CASE("a source that ignores its pace is held to the rate that the ingress leaves it") {
  Overlay overlay(22, 3);
  DataPlaneOptions cheat;
  cheat.paced = false;
  overlay.restart(1, 1, cheat);
  TenantPlan plan(3);
  plan.limit_ingress(2, 200 * kMbps);
  plan.add_link(0, 2, 1000 * kMbps);
  plan.add_link(1, 2, 1000 * kMbps);
  const CollectiveId honest = plan.add_chain("a", {0, 2}, 90 * kMbps);
  const CollectiveId greedy = plan.add_chain("b", {1, 2}, 100 * kMbps);
  REQUIRE(overlay.publish(plan.build()));
  overlay.set_members(honest, {0, 2});
  overlay.set_members(greedy, {1, 2});
  pass(overlay, std::chrono::seconds(1));
  Broadcast own(honest, {0, 2}, payload(static_cast<std::size_t>(90e6 * 3 / 8)));
  Broadcast flood(greedy, {1, 2}, std::vector<std::byte>(80'000'000, std::byte{1}));
  flood.post_all(overlay);
  own.post_all(overlay);
  const TimePoint start = overlay.simulation.clock().now();
  pass(overlay, std::chrono::seconds(3));
  const auto sent = static_cast<double>(statistics_of(overlay, 1).bytes_sent);
  // Its load and an even part of the 10 that nobody was promised, and its window once.
  CHECK(sent * kBitsPerByte < 1.05 * 105 * kMbps * 3 + 8'000'000 * kBitsPerByte);
  CHECK(sent * kBitsPerByte > 0.95 * 105 * kMbps * 3);
  REQUIRE(overlay.run([&] { return own.is_over(); }));
  CHECK(seconds_between(start, own.finished_at[1]) < 1.05 * 3);
}

TEST_CASE("a relay forwards a flood at its share and keeps no more of it than its windows") {
  DataPlaneOptions options;
  options.window_bytes = std::size_t{16} << 20U;
  Overlay overlay(23, 4, options);
  DataPlaneOptions cheat = options;
  cheat.paced = false;
  overlay.restart(1, 1, cheat);
  TenantPlan plan(4);
  plan.add_link(0, 2, 1000 * kMbps);
  plan.add_link(1, 2, 1000 * kMbps);
  plan.add_link(2, 3, 100 * kMbps);
  const CollectiveId honest = plan.add_chain("a", {0, 2, 3}, 45 * kMbps);
  std::vector<std::unique_ptr<Broadcast>> flood;
  for (std::size_t i = 0; i < kGreedySessions; ++i) {
    const CollectiveId id = plan.add_chain("b", {1, 2, 3}, 55 * kMbps / kGreedySessions);
    flood.push_back(std::make_unique<Broadcast>(id, std::vector<std::uint32_t>{1, 3}, payload(600'000, i)));
  }
  REQUIRE(overlay.publish(plan.build()));
  overlay.set_members(honest, {0, 3});
  for (const auto& broadcast : flood) overlay.set_members(broadcast->collective, {1, 3});
  pass(overlay, std::chrono::seconds(1));
  for (const auto& broadcast : flood) broadcast->post_all(overlay);
  pass(overlay, std::chrono::milliseconds(500));
  Broadcast own(honest, {0, 3}, payload(static_cast<std::size_t>(45e6 * 3 / 8)));
  const TimePoint start = overlay.simulation.clock().now();
  own.post_all(overlay);
  REQUIRE(overlay.run([&] { return own.is_over(); }));
  CHECK(seconds_between(start, own.finished_at[1]) < 1.03 * 3);
  CHECK(statistics_of(overlay, 2).bytes_in_transit_max <= options.window_bytes / 4);
}

TEST_CASE("a receiver that never calls stalls its own session only") {
  constexpr std::size_t kSessions = 6;
  DataPlaneOptions options;
  options.window_bytes = kMinWindowBytes;
  Overlay overlay(24, 2 + kSessions, options);
  TenantPlan plan(2 + kSessions);
  plan.add_link(0, 1, 60 * kMbps);
  std::vector<std::unique_ptr<Broadcast>> sessions;
  for (std::uint32_t i = 0; i < kSessions; ++i) {
    plan.add_link(1, 2 + i, 60 * kMbps);
    const CollectiveId id = plan.add_chain("t" + std::to_string(i % 3), {0, 1, 2 + i}, 10 * kMbps);
    sessions.push_back(
        std::make_unique<Broadcast>(id, std::vector<std::uint32_t>{0, 2 + i}, payload(6'000'000, i)));
  }
  REQUIRE(overlay.publish(plan.build()));
  for (const auto& session : sessions) overlay.set_members(session->collective, session->nodes);
  pass(overlay, std::chrono::seconds(1));
  const TimePoint start = overlay.simulation.clock().now();
  sessions[0]->post(overlay, 0);
  for (std::size_t i = 1; i < kSessions; ++i) sessions[i]->post_all(overlay);
  REQUIRE(overlay.run([&] {
    return std::all_of(sessions.begin() + 1, sessions.end(),
                       [](const auto& session) { return session->is_over(); });
  }));
  // Planned: 4.8 s and headers; the stalled session's part is shared by the others.
  for (std::size_t i = 1; i < kSessions; ++i) {
    CHECK(sessions[i]->is_right());
    CHECK(seconds_between(start, sessions[i]->finished_at[1]) < 1.03 * 4.8);
  }
  CHECK_FALSE(sessions[0]->outcomes[0].has_value());
  sessions[0]->post(overlay, 1);
  REQUIRE(overlay.run([&] { return sessions[0]->is_over(); }));
  CHECK(sessions[0]->is_right());
}
