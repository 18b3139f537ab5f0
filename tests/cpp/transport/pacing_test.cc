#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "transport/pacing/link_scheduler.h"
#include "transport/pacing/pacer.h"
#include "transport/pacing/wire_cost.h"

using namespace square;

namespace {

constexpr double kFrameBits = 80'000;

// A link of `capacity` serves flows that always have a frame while `is_backlogged`.
std::map<FlowId, double> serve(LinkScheduler& scheduler, double capacity_bps, double seconds,
                               const std::vector<FlowId>& flows, TimePoint& now) {
  Pacer pacer(capacity_bps);
  std::map<FlowId, double> bits;
  for (const FlowId flow : flows) scheduler.set_head(flow, kFrameBits, now);
  const TimePoint end = now + from_seconds(seconds);
  while (now < end) {
    now = std::max(now, pacer.ready_at());
    const auto flow = scheduler.pick(now);
    if (!flow) break;
    scheduler.charge(*flow, now);
    scheduler.set_head(*flow, kFrameBits, now);
    pacer.charge(kFrameBits, now);
    bits[*flow] += kFrameBits;
  }
  for (const FlowId flow : flows) scheduler.set_head(flow, std::nullopt, now);
  return bits;
}

}  // namespace

TEST_CASE("late timers do not lower the rate") {
  Pacer pacer(10e6);
  TimePoint now{};
  now += std::chrono::seconds(100);
  const TimePoint start = now;
  double sent = 0;
  while (now - start < std::chrono::seconds(10)) {
    now = std::max(now, pacer.ready_at()) + std::chrono::milliseconds(3);  // every wake-up is 3 ms late
    while (pacer.ready_at() <= now) {
      pacer.charge(kFrameBits, now);
      sent += kFrameBits;
    }
  }
  CHECK(sent / 10 == doctest::Approx(10e6).epsilon(0.01));
}

TEST_CASE("a pacer that was idle sends no long burst") {
  Pacer pacer(10e6);
  TimePoint now{};
  now += std::chrono::seconds(100);
  double burst = 0;
  while (pacer.ready_at() <= now) {
    pacer.charge(kFrameBits, now);
    burst += kFrameBits;
  }
  CHECK(burst <= 10e6 * to_seconds(kPacerCatchUp) + 2 * kFrameBits);
}

TEST_CASE("guarantees hold whatever the others send, and idle capacity is shared by weight") {
  LinkScheduler scheduler;
  const FlowId planned = scheduler.add_flow(6e6, 1.0);
  const FlowId greedy = scheduler.add_flow(1e6, 1.0);
  const FlowId heavy = scheduler.add_flow(1e6, 3.0);
  TimePoint now{};
  now += std::chrono::seconds(1);
  const auto bits = serve(scheduler, 10e6, 20, {planned, greedy, heavy}, now);
  // 8 of 10 Mbit/s are guaranteed; 2 are shared 1:1:3.
  CHECK(bits.at(planned) / 20 == doctest::Approx(6.4e6).epsilon(0.02));
  CHECK(bits.at(greedy) / 20 == doctest::Approx(1.4e6).epsilon(0.02));
  CHECK(bits.at(heavy) / 20 == doctest::Approx(2.2e6).epsilon(0.02));
}

TEST_CASE("nothing stays idle, and who was away saves nothing up") {
  LinkScheduler scheduler;
  const FlowId a = scheduler.add_flow(5e6, 1.0);
  const FlowId b = scheduler.add_flow(5e6, 1.0);
  TimePoint now{};
  now += std::chrono::seconds(1);
  CHECK(serve(scheduler, 10e6, 10, {a}, now).at(a) / 10 == doctest::Approx(10e6).epsilon(0.02));
  const auto both = serve(scheduler, 10e6, 10, {a, b}, now);
  CHECK(both.at(a) / 10 == doctest::Approx(5e6).epsilon(0.02));
  CHECK(both.at(b) / 10 == doctest::Approx(5e6).epsilon(0.02));
}

TEST_CASE("headers are counted") {
  CHECK(wire_bits(8192) > 8 * 8192);
  CHECK(wire_bits(8192) < 1.03 * 8 * 8192);
  CHECK(wire_bits(1 << 20) < 1.01 * 8 * (1 << 20));
}
