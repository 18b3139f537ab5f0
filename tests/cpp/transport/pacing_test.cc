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

TimePoint start_time() { return TimePoint{} + std::chrono::seconds(100); }

// A link of `capacity` serves flows that always have a frame.
std::map<FlowId, double> serve(LinkScheduler& scheduler, double capacity_bps, double seconds,
                               const std::vector<FlowId>& flows, TimePoint& now) {
  Pacer pacer(capacity_bps);
  std::map<FlowId, double> bits;
  for (const FlowId flow : flows) {
    scheduler.set_head(flow, kFrameBits, now);
    bits[flow] = 0;
  }
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

double sum(const std::map<FlowId, double>& bits, const std::vector<FlowId>& flows) {
  double total = 0;
  for (const FlowId flow : flows) total += bits.at(flow);
  return total;
}

std::vector<FlowId> add_many(LinkScheduler& scheduler, std::size_t count, const FlowShare& share) {
  std::vector<FlowId> flows;
  for (std::size_t i = 0; i < count; ++i) flows.push_back(scheduler.add_flow(share));
  return flows;
}

}  // namespace

TEST_CASE("what was charged at one rate passes at the next") {
  TimePoint now = start_time();
  Pacer pacer(1e6);
  pacer.begin(now);
  pacer.charge(8e6, now);
  CHECK(to_seconds(pacer.ready_at() - now) == doctest::Approx(8).epsilon(0.01));
  pacer.set_rate(80e6, now);
  CHECK(to_seconds(pacer.ready_at() - now) == doctest::Approx(0.1).epsilon(0.01));
  now += std::chrono::seconds(1);
  const TimePoint ready = pacer.ready_at();
  pacer.set_rate(1e6, now);  // nothing waits: nothing changes
  CHECK(pacer.ready_at() == ready);
}

TEST_CASE("late timers do not lower the rate") {
  Pacer pacer(10e6);
  TimePoint now = start_time();
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
  const TimePoint now = start_time();
  double burst = 0;
  while (pacer.ready_at() <= now) {
    pacer.charge(kFrameBits, now);
    burst += kFrameBits;
  }
  CHECK(burst <= 10e6 * to_seconds(kPacerCatchUp) + 2 * kFrameBits);
  CHECK(kPacerCatchUp + kPacerBurst < std::chrono::milliseconds(50));  // 5% of any second
}

TEST_CASE("guarantees hold whatever the others send, and idle capacity is shared by weight") {
  LinkScheduler scheduler;
  const FlowId planned = scheduler.add_flow({"a", 1.0, 6e6, 1.0});
  const FlowId greedy = scheduler.add_flow({"b", 1.0, 1e6, 1.0});
  const FlowId heavy = scheduler.add_flow({"c", 3.0, 1e6, 1.0});
  TimePoint now = start_time();
  const auto bits = serve(scheduler, 10e6, 20, {planned, greedy, heavy}, now);
  // 8 of 10 Mbit/s are guaranteed; 2 are shared 1:1:3.
  CHECK(bits.at(planned) / 20 == doctest::Approx(6.4e6).epsilon(0.02));
  CHECK(bits.at(greedy) / 20 == doctest::Approx(1.4e6).epsilon(0.02));
  CHECK(bits.at(heavy) / 20 == doctest::Approx(2.2e6).epsilon(0.02));
}

TEST_CASE("nothing stays idle, and who was away saves nothing up") {
  LinkScheduler scheduler;
  const FlowId a = scheduler.add_flow({"a", 1.0, 5e6, 1.0});
  const FlowId b = scheduler.add_flow({"b", 1.0, 5e6, 1.0});
  TimePoint now = start_time();
  CHECK(serve(scheduler, 10e6, 10, {a}, now).at(a) / 10 == doctest::Approx(10e6).epsilon(0.02));
  const auto both = serve(scheduler, 10e6, 10, {a, b}, now);
  CHECK(both.at(a) / 10 == doctest::Approx(5e6).epsilon(0.02));
  CHECK(both.at(b) / 10 == doctest::Approx(5e6).epsilon(0.02));
}

TEST_CASE("collectives that follow one another are guaranteed the most of any, whichever runs, or both") {
  LinkScheduler scheduler;
  const auto add = [&](std::string tenant, double guarantee_bps, std::uint64_t turn) {
    return scheduler.add_flow({tenant, 1.0, guarantee_bps, 1.0, tenant + "'s job", turn});
  };
  const FlowId first = add("a", 6e6, 0);
  const FlowId second = add("a", 4e6, 1);
  const FlowId third = add("a", 2e6, 1);
  const FlowId other = add("b", 4e6, 2);
  TimePoint now = start_time();
  for (const std::vector<FlowId>& busy : std::vector<std::vector<FlowId>>{
           {first, other}, {second, other}, {second, third, other}, {first, second, third, other}}) {
    const auto bits = serve(scheduler, 10e6, 10, busy, now);
    CHECK(bits.at(other) / 10 == doctest::Approx(4e6).epsilon(0.02));
  }
  CHECK(serve(scheduler, 10e6, 10, {first}, now).at(first) / 10 == doctest::Approx(10e6).epsilon(0.02));
  scheduler.remove_flow(second);
  scheduler.remove_flow(third);
  const auto bits = serve(scheduler, 10e6, 10, {first, other}, now);
  CHECK(bits.at(first) / 10 == doctest::Approx(6e6).epsilon(0.02));
}

TEST_CASE("what a resting session leaves goes to its own tenant first") {
  LinkScheduler scheduler;
  const FlowId busy = scheduler.add_flow({"a", 1.0, 50e6, 1.0});
  const FlowId resting = scheduler.add_flow({"a", 1.0, 50e6, 1.0});
  const FlowId other = scheduler.add_flow({"b", 5.0, 100e6, 1.0});
  TimePoint now = start_time();
  const auto lent = serve(scheduler, 200e6, 20, {busy, other}, now);
  CHECK(lent.at(busy) / 20 == doctest::Approx(100e6).epsilon(0.01));
  CHECK(lent.at(other) / 20 == doctest::Approx(100e6).epsilon(0.01));
  // Who comes back has its own again.
  const auto all = serve(scheduler, 200e6, 20, {busy, resting, other}, now);
  CHECK(all.at(busy) / 20 == doctest::Approx(50e6).epsilon(0.01));
  CHECK(all.at(resting) / 20 == doctest::Approx(50e6).epsilon(0.01));
  CHECK(all.at(other) / 20 == doctest::Approx(100e6).epsilon(0.01));
  // What a whole tenant leaves is for the others.
  CHECK(serve(scheduler, 200e6, 20, {other}, now).at(other) / 20 == doctest::Approx(200e6).epsilon(0.01));
  scheduler.remove_flow(resting);
  const auto left = serve(scheduler, 200e6, 20, {busy, other}, now);
  CHECK(left.at(busy) / 20 == doctest::Approx(50e6 + 50e6 / 6).epsilon(0.01));
}

TEST_CASE("a tenant with 64 flows gets no more of the idle capacity than one with a single flow") {
  LinkScheduler scheduler;
  const FlowId alone = scheduler.add_flow({"a", 1.0, 20e6, 1.0});
  const auto many = add_many(scheduler, 64, {"b", 1.0, 20e6 / 64, 1.0});
  const FlowId heavy = scheduler.add_flow({"c", 2.0, 20e6, 1.0});
  std::vector<FlowId> all = many;
  all.push_back(alone);
  all.push_back(heavy);
  TimePoint now = start_time();
  const auto bits = serve(scheduler, 100e6, 20, all, now);
  // 60 are guaranteed, 40 are shared 1:1:2.
  CHECK(bits.at(alone) / 20 == doctest::Approx(30e6).epsilon(0.01));
  CHECK(sum(bits, many) / 20 == doctest::Approx(30e6).epsilon(0.01));
  CHECK(bits.at(heavy) / 20 == doctest::Approx(40e6).epsilon(0.01));
  for (const FlowId flow : many) CHECK(bits.at(flow) / 20 == doctest::Approx(30e6 / 64).epsilon(0.05));
}

TEST_CASE("within a tenant idle capacity goes by the weights of its flows") {
  LinkScheduler scheduler;
  const FlowId light = scheduler.add_flow({"a", 1.0, 0, 1.0});
  const FlowId heavy = scheduler.add_flow({"a", 1.0, 0, 4.0});
  const FlowId other = scheduler.add_flow({"b", 1.0, 0, 0.001});
  TimePoint now = start_time();
  const auto bits = serve(scheduler, 10e6, 20, {light, heavy, other}, now);
  CHECK(bits.at(light) / 20 == doctest::Approx(1e6).epsilon(0.02));
  CHECK(bits.at(heavy) / 20 == doctest::Approx(4e6).epsilon(0.02));
  CHECK(bits.at(other) / 20 == doctest::Approx(5e6).epsilon(0.02));
}

TEST_CASE("guarantees beyond the capacity are cut in proportion, also for who comes late") {
  LinkScheduler scheduler;
  const FlowId first = scheduler.add_flow({"a", 1.0, 9e6, 1.0});
  const auto many = add_many(scheduler, 30, {"b", 1.0, 0.2e6, 1.0});
  TimePoint now = start_time();
  std::vector<FlowId> early = many;
  early.push_back(first);
  const auto alone = serve(scheduler, 10e6, 30, early, now);
  CHECK(alone.at(first) / 30 == doctest::Approx(6e6).epsilon(0.02));
  CHECK(sum(alone, many) / 30 == doctest::Approx(4e6).epsilon(0.02));

  const FlowId late = scheduler.add_flow({"c", 1.0, 5e6, 1.0});
  std::vector<FlowId> all = early;
  all.push_back(late);
  const auto bits = serve(scheduler, 10e6, 20, all, now);
  CHECK(bits.at(first) / 20 == doctest::Approx(4.5e6).epsilon(0.03));
  CHECK(bits.at(late) / 20 == doctest::Approx(2.5e6).epsilon(0.03));
  CHECK(sum(bits, many) / 20 == doctest::Approx(3e6).epsilon(0.03));

  // When the overload ends, what was promised holds again at once.
  for (const FlowId flow : many) scheduler.remove_flow(flow);
  scheduler.remove_flow(first);
  CHECK(serve(scheduler, 10e6, 10, {late}, now).at(late) / 10 == doctest::Approx(10e6).epsilon(0.02));
}

TEST_CASE("a tenant whose flows all left is forgotten") {
  LinkScheduler scheduler;
  const FlowId a = scheduler.add_flow({"a", 1.0, 1e6, 1.0});
  TimePoint now = start_time();
  scheduler.set_head(a, kFrameBits, now);
  scheduler.remove_flow(a);
  scheduler.remove_flow(a);
  CHECK_FALSE(scheduler.pick(now).has_value());
  const FlowId again = scheduler.add_flow({"a", 1.0, 1e6, 1.0});
  scheduler.set_head(again, kFrameBits, now);
  CHECK(scheduler.pick(now) == again);
}

TEST_CASE("headers are counted") {
  CHECK(wire_bits(8192) > 8 * 8192);
  CHECK(wire_bits(8192) < 1.03 * 8 * 8192);
  CHECK(wire_bits(1 << 20) < 1.01 * 8 * (1 << 20));
}
