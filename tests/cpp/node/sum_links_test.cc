// Sums over links that fail: they move as soon as a plan leads around, and what is none of theirs leaves them
// alone.
#include <doctest/doctest.h>

#include "node/links/broken_links.h"
#include "node/sums.h"
#include "node/sums/interleave.h"
#include "node/sums/stream_silence.h"
#include "node/sums/sum_messages.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kFloats = 2'500'000;
// What the controller takes: from a report to the new plan at all nodes.
constexpr Duration kPlanning = 200ms;

// A reduce from n1 and n2 to n0, at 20 Mbit/s: half of it directly, half added by n3. And a broadcast from n0
// to n4.
std::shared_ptr<const Plan> reduce_plan(Epoch epoch, bool by_relay) {
  PlanBuilder builder(5, epoch);
  for (const auto& [from, to] : {std::pair(1, 0), std::pair(2, 0), std::pair(1, 3), std::pair(2, 3),
                                 std::pair(3, 0), std::pair(0, 4)}) {
    builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 20 * kMbps);
  }
  PlanBuilder::Trees trees{{{{1, 0}, {2, 0}}, 10 * kMbps}};
  if (by_relay) trees.push_back({{{1, 3}, {2, 3}, {3, 0}}, 10 * kMbps});
  builder.add_reduce(0, {0, 1, 2}, trees);
  builder.add_broadcast(0, {0, 4}, {{{{0, 4}}, 1 * kMbps}});
  return builder.build();
}

struct Reduce {
  explicit Reduce(std::uint64_t seed) : overlay(seed, 5) {
    overlay.simulation.set_default_conditions({.delay = 10ms});
    REQUIRE(overlay.publish(reduce_plan(Epoch(1), true)));
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    again();
  }
  void again() {
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < 3; ++rank) inputs.push_back(whole_floats(random, kFloats));
    sum = std::make_unique<Sum>(CollectiveId(0), std::vector<std::uint32_t>{0, 1, 2}, std::move(inputs), 0);
    sum->operation = OperationId(operations++);
    sum->post_all(overlay);
    begun = overlay.simulation.clock().now();
  }
  void pass(Duration time) {
    const TimePoint end = overlay.simulation.clock().now() + time;
    overlay.simulation.run_until([] { return false; }, end);
  }
  double seconds() {
    REQUIRE(overlay.run([&] { return sum->is_over(); }, 60s));
    CHECK(sum->is_right());
    return to_seconds(std::ranges::max(sum->finished_at) - begun);
  }
  std::uint64_t blocks_sent(std::size_t node) {
    std::optional<NodeStatistics> statistics;
    overlay.node(node).statistics([&](NodeStatistics now) { statistics = now; });
    REQUIRE(overlay.run([&] { return statistics.has_value(); }));
    return statistics->blocks_sent;
  }

  Overlay overlay;
  std::mt19937_64 random{5};
  std::uint64_t operations = 0;
  std::unique_ptr<Sum> sum;
  TimePoint begun{};
};

}  // namespace

TEST_CASE("a sum through a relay that falls silent goes on as soon as the plan leads around it") {
  for (std::uint64_t seed = 1; seed <= 5; seed += kSeedStep) {
    CAPTURE(seed);
    const double undisturbed = Reduce(seed).seconds();
    Reduce test(seed);
    bool is_reported = false;
    for (const std::size_t tail : {1, 2}) {
      test.overlay.node(tail).report_broken_links([&](const LinkTroubles&) { is_reported = true; });
    }
    test.pass(500ms);
    test.overlay.simulation.pause(node_name(3), 30s);
    REQUIRE(test.overlay.run([&] { return is_reported; }, 5s));
    const TimePoint reported_at = test.overlay.simulation.clock().now();
    CHECK(reported_at - test.begun < 500ms + 1'600ms);
    test.pass(kPlanning);
    int installed = 0;
    for (const std::size_t node : {0, 1, 2, 4}) {
      test.overlay.node(node).install_plan(reduce_plan(Epoch(2), false), [&](Epoch) { ++installed; });
    }
    REQUIRE(test.overlay.run([&] { return installed == 4; }, 5s));
    for (const std::size_t node : {0, 1, 2, 4}) test.overlay.node(node).activate_plan(Epoch(2), true);
    const Duration moved = test.overlay.simulation.clock().now() - test.begun;
    // Half of the capacity is left, for what was not through at the fault.
    MESSAGE("undisturbed ", undisturbed, " s, moved after ", to_seconds(moved), " s, took ", test.seconds(),
            " s");
    CHECK(test.seconds() < to_seconds(moved) + 2 * undisturbed + 0.3);
  }
}

TEST_CASE("a link that comes back does not make sums begin again that do not use it") {
  const auto sent = [](std::size_t cut_from, std::size_t cut_to, bool is_cut) {
    Reduce test(3);
    test.pass(1s);
    // Nothing of n1's comes any more, and soon nothing at all.
    test.overlay.set_stalled(1, 0, true);
    test.overlay.set_stalled(1, 3, true);
    test.pass(6s);
    test.overlay.set_cut(cut_from, cut_to, is_cut);
    test.pass(300ms);
    test.overlay.set_cut(cut_from, cut_to, false);
    test.pass(1'500ms);
    const std::uint64_t blocks = test.blocks_sent(2);
    test.overlay.set_stalled(1, 0, false);
    test.overlay.set_stalled(1, 3, false);
    test.seconds();
    return blocks;
  };
  const std::uint64_t undisturbed = sent(0, 4, false);
  CHECK(sent(0, 4, true) == undisturbed);
  CHECK(sent(2, 0, true) > undisturbed);
}

// Without a controller that plans.
TEST_CASE(
    "a sum leaves a stream through which nothing comes, and the next one uses it again once it is healed") {
  for (std::uint64_t seed = 1; seed <= 5; seed += kSeedStep) {
    CAPTURE(seed);
    const double undisturbed = Reduce(seed).seconds();
    for (const int fault : {0, 1, 2}) {
      CAPTURE(fault);
      Reduce test(seed);
      test.pass(500ms);
      if (fault == 0) test.overlay.simulation.pause(node_name(3), 30s);
      if (fault == 1) test.overlay.set_stalled(1, 3, true);
      if (fault == 2) test.overlay.set_cut(3, 0, true);
      // What the other stream has of it, then the doubt, then the rest over half of the capacity.
      const double took = test.seconds();
      MESSAGE("undisturbed ", undisturbed, " s, took ", took, " s");
      CHECK(took < 2 * undisturbed + 3.0);
      test.overlay.set_stalled(1, 3, false);
      test.overlay.set_cut(3, 0, false);
      test.pass(30s);
      test.again();
      CHECK(test.seconds() < 1.1 * undisturbed);
    }
  }
}

TEST_CASE("a member that is silent on all its streams is waited for, and no stream is left") {
  for (std::uint64_t seed = 1; seed <= 3; seed += kSeedStep) {
    CAPTURE(seed);
    const double undisturbed = Reduce(seed).seconds();
    Reduce test(seed);
    test.pass(500ms);
    test.overlay.simulation.pause(node_name(1), 8s);
    const double took = test.seconds();
    CHECK(took > 8.0);
    // Both streams carry the rest: over one of them it would take twice as long.
    CHECK(took < 8.5 + undisturbed + 0.3);
  }
}

TEST_CASE("which streams of a sum are silent") {
  const StreamIndex a(0);
  const StreamIndex b(1);
  const std::vector<NodeId> both{NodeId(1), NodeId(2)};
  const std::map<StreamIndex, Duration> patience{{a, 1s}, {b, 1s}};
  const TimePoint begin{1h};
  StreamSilence silence;
  silence.on_question(a, both, begin);
  CHECK_FALSE(silence.is_in_doubt(begin + kDoubtTime - 1ms));
  CHECK(silence.is_in_doubt(begin + kDoubtTime));
  CHECK(silence.find(patience, both, begin + 5s).empty());  // nobody is known to live
  silence.on_question(b, both, begin + 1s);
  silence.on_answer(b, NodeId(1), begin + 2s);
  silence.on_answer(a, NodeId(1), begin + 2s);
  CHECK(silence.find(patience, both, begin + 1500ms).empty());
  CHECK(silence.find(patience, both, begin + 5s).empty());  // n2 answers nowhere
  silence.on_answer(b, NodeId(2), begin + 3s);
  CHECK(silence.find(patience, both, begin + 5s) == std::set<StreamIndex>{a});
  CHECK(silence.find({{a, 6s}, {b, 1s}}, both, begin + 5s).empty());
  CHECK(silence.find({{a, 1s}}, both, begin + 5s).empty());  // the other was left before
  // Questions that were asked again are as old as the first.
  silence.on_question(a, both, begin + 4900ms);
  CHECK(silence.find(patience, both, begin + 5s) == std::set<StreamIndex>{a});
  // What was said before the silence proves nothing.
  silence.on_part(a);
  CHECK_FALSE(silence.is_in_doubt(begin + 5s));
  silence.on_question(a, both, begin + 6s);
  CHECK(silence.find(patience, both, begin + 9s).empty());
  silence.on_answer(b, NodeId(1), begin + 7s);
  silence.on_answer(b, NodeId(2), begin + 7s);
  CHECK(silence.find(patience, both, begin + 9s) == std::set<StreamIndex>{a});
  silence.clear();
  CHECK(silence.find(patience, both, begin + 9s).empty());
}

TEST_CASE("a request says which streams are left") {
  SumRequest request;
  request.number = 3;
  request.first_missing = 2;
  request.bits = {false, true, true};
  request.left = {false, true, false, false, false, false, false, false, true};
  request.again = {{7, 1}, {9, 2}};
  const auto decoded = decode_request(encode_request(request));
  REQUIRE(decoded.is_ok());
  CHECK(decoded->bits == request.bits);
  CHECK(decoded->left == request.left);
  CHECK(decoded->again == request.again);
  std::vector<std::byte> bytes(encode_request(request).size_bytes() - 1);
  CHECK_FALSE(decode_request(Buffer::copy_of(bytes)).is_ok());
  const Interleave dealt({{1e6, 1}, {1e6, 1}, {1e6, 1}}, 6, {true}, {false, true});
  CHECK(dealt.order(1).empty());
  CHECK(dealt.order(0) == std::vector<std::uint32_t>{1, 3, 5});
  CHECK(dealt.order(2) == std::vector<std::uint32_t>{2, 4});
}
