// Reduces and all-reduces over plans made by hand.
#include <doctest/doctest.h>

#include "node/sums.h"
#include "node/sums/interleave.h"

using namespace square;
using namespace square::test;

namespace {

std::vector<std::vector<float>> random_inputs(std::uint64_t seed, std::size_t members, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> inputs;
  for (std::size_t i = 0; i < members; ++i) inputs.push_back(whole_floats(random, count));
  return inputs;
}

// 1 and 2 send to 3, which relays to 0; 3 may be a member.
PlanBuilder meshed_star(bool relay_is_member) {
  PlanBuilder builder(4);
  for (std::uint32_t from = 0; from < 4; ++from) {
    for (std::uint32_t to = 0; to < 4; ++to) {
      if (from != to) builder.add_link(from, to, 80e6);
    }
  }
  const std::vector<std::uint32_t> members =
      relay_is_member ? std::vector<std::uint32_t>{0, 1, 2, 3} : std::vector<std::uint32_t>{0, 1, 2};
  builder.add_reduce(0, members, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}});
  return builder;
}

}  // namespace

TEST_CASE("blocks are dealt to streams in proportion to their rates, each once") {
  const Interleave deal({{3e6, 1}, {1e6, 1}}, 1'000, {true, true});
  CHECK(deal.order(0).size() + deal.order(1).size() == 998);
  CHECK(deal.order(1).size() == doctest::Approx(998 / 4).epsilon(0.01));
  CHECK_FALSE(deal.is_dealt(0));
  for (std::size_t block = 2; block < 1'000; ++block) {
    REQUIRE(deal.order(deal.stream_of(block))[deal.position_of(block)] == block);
  }
  // The slow stream gets nothing that the fast one would be through with sooner.
  CHECK(Interleave({{100e6, 1}, {1e6, 1}}, 10, {}).order(1).empty());
  // Each of six further links counts for half a block.
  CHECK(Interleave({{4e6, 1}, {1e6, 1}}, 10, {}).order(1).size() == 2);
  CHECK(Interleave({{4e6, 1}, {1e6, 7}}, 10, {}).order(1).empty());
  CHECK(Interleave({{4e6, 1}, {1e6, 7}}, 1'000, {}).order(1).size() == doctest::Approx(197).epsilon(0.01));
}

TEST_CASE("a reduce adds every member's values at the root, over a relay that adds") {
  for (const bool relay_is_member : {false, true}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'000}}) {
      CAPTURE(relay_is_member);
      CAPTURE(count);
      Overlay overlay(1, 4);
      std::vector<std::uint32_t> ranks{0, 1, 2};
      if (relay_is_member) ranks.push_back(3);
      Sum sum(CollectiveId(0), ranks, random_inputs(3, ranks.size(), count), 0, count != 1);
      overlay.set_members(CollectiveId(0), ranks);
      REQUIRE(overlay.publish(meshed_star(relay_is_member).build()));
      const TimePoint start = overlay.simulation.clock().now();
      sum.post_all(overlay);
      CHECK(overlay.run([&] { return sum.is_over(); }));
      CHECK(sum.is_right());
      if (count > 1'000) {
        // 40 Mbit/s through the one link into the root, which is twice as fast.
        const double seconds = to_seconds(sum.finished_at[0] - start);
        CHECK(seconds > 0.9 * static_cast<double>(count) * 32 / 80e6);
        CHECK(seconds < 1.3 * static_cast<double>(count) * 32 / 40e6);
      }
    }
  }
}

TEST_CASE("several ranks on a node are added there, and one node needs no link") {
  Overlay overlay(1, 4);
  PlanBuilder builder(4);
  builder.add_link(1, 0, 80e6);
  builder.add_reduce(0, {0, 1}, {{{{1, 0}}, 40e6}});
  builder.add_all_reduce({2}, {});
  const std::vector<std::uint32_t> ranks{1, 0, 1, 0, 0};
  Sum sum(CollectiveId(0), ranks, random_inputs(4, ranks.size(), 100'000), 3);
  Sum local(CollectiveId(1), {2, 2, 2}, random_inputs(5, 3, 100'000));
  overlay.set_members(CollectiveId(0), ranks);
  overlay.set_members(CollectiveId(1), {2, 2, 2});
  REQUIRE(overlay.publish(builder.build()));
  sum.post_all(overlay);
  local.post_all(overlay);
  CHECK(overlay.run([&] { return sum.is_over() && local.is_over(); }));
  CHECK(sum.is_right());
  CHECK(local.is_right());
}

TEST_CASE("an all-reduce over two shares gives all the same bits, again and again") {
  std::vector<std::vector<float>> first;
  for (int round = 0; round < 3; ++round) {
    Overlay overlay(static_cast<std::uint64_t>(round) + 1, 3);
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < 3; ++b) {
        if (a != b)
          overlay.simulation.set_conditions(
              node_name(a), node_name(b),
              {std::chrono::milliseconds(2 + round), std::chrono::milliseconds(3), 0.02});
      }
    }
    PlanBuilder builder(3);
    for (std::uint32_t from = 0; from < 3; ++from) {
      for (std::uint32_t to = 0; to < 3; ++to) {
        if (from != to) builder.add_link(from, to, 80e6);
      }
    }
    builder.add_all_reduce(
        {0, 1, 2},
        {{0, 300'000, {{{{1, 0}, {2, 0}}, 20e6}, {{{2, 1}, {1, 0}}, 10e6}}, {{{{0, 1}, {0, 2}}, 30e6}}},
         {2, 700'000, {{{{0, 1}, {1, 2}}, 30e6}}, {{{{2, 0}, {0, 1}}, 30e6}}}});
    std::mt19937_64 random(9);
    std::vector<std::vector<float>> inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(any_floats(random, 777'777));
    Sum sum(CollectiveId(0), {0, 1, 2}, inputs, std::nullopt, round % 2 == 0);
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    REQUIRE(overlay.publish(builder.build()));
    sum.post_all(overlay);
    CHECK(overlay.run([&] { return sum.is_over(); }));
    for (const auto& outcome : sum.outcomes) {
      if (outcome && !outcome->is_ok()) MESSAGE(outcome->to_string());
    }
    CHECK(sum.is_right(false));
    if (first.empty()) first = sum.outputs;
    CHECK(first == sum.outputs);
  }
}

TEST_CASE("members that disagree are told who said what") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  REQUIRE(overlay.publish(meshed_star(false).build()));
  Sum sum(CollectiveId(0), {0, 1, 2}, random_inputs(3, 3, 1'000), 0);
  sum.outputs[2].resize(999);
  sum.post_all(overlay);
  CHECK(overlay.run([&] { return sum.is_over(); }));
  for (const auto& outcome : sum.outcomes) {
    REQUIRE(outcome.has_value());
    CHECK(outcome->code() == StatusCode::kInvalidArgument);
    CHECK(outcome->message().find("4000 bytes of float32") != std::string::npos);
    CHECK(outcome->message().find("3996 bytes of float32") != std::string::npos);
  }
}

TEST_CASE("a member that does not call is named by the root's timeout") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  REQUIRE(overlay.publish(meshed_star(false).build()));
  Sum sum(CollectiveId(0), {0, 1, 2}, random_inputs(3, 3, 100'000), 0);
  sum.timeout = std::chrono::seconds(5);
  sum.post(overlay, 0);
  sum.post(overlay, 1);
  CHECK(overlay.run([&] { return sum.outcomes[0].has_value() && sum.outcomes[1].has_value(); }));
  CHECK(sum.outcomes[0]->code() == StatusCode::kDeadlineExceeded);
  CHECK(sum.outcomes[0]->message().find("\"n2\"") != std::string::npos);
}

TEST_CASE("an average is divided once, by the number of ranks, whatever nodes they share") {
  // Ranks 0 and 3 share the root's node, 1 and 2 are added by a relay on the way.
  PlanBuilder builder(4);
  builder.add_link(1, 3, 80e6);
  builder.add_link(2, 3, 80e6);
  builder.add_link(3, 0, 80e6);
  builder.add_link(0, 3, 80e6);
  builder.add_link(3, 1, 80e6);
  builder.add_link(3, 2, 80e6);
  builder.add_reduce(0, {0, 1, 2}, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}});
  builder.add_all_reduce(
      {0, 1, 2}, {{0, 1'000, {{{{1, 3}, {2, 3}, {3, 0}}, 20e6}}, {{{{0, 3}, {3, 1}, {3, 2}}, 20e6}}}});
  builder.add_all_reduce({2}, {});
  Overlay overlay(1, 4);
  const std::vector<std::uint32_t> ranks{0, 1, 2, 0};
  const std::vector<std::uint32_t> alone{2, 2, 2};
  std::mt19937_64 random(seed_from_environment(6));
  const auto make = [&](std::uint32_t id, const std::vector<std::uint32_t>& nodes,
                        std::optional<std::uint32_t> root) {
    std::vector<std::vector<float>> inputs;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) inputs.push_back(whole_floats(random, 50'001));
    Sum sum(CollectiveId(id), nodes, inputs, root, true);
    sum.reduction.op = ReduceOp::kAverage;
    for (float& value : sum.expected) value /= static_cast<float>(nodes.size());
    overlay.set_members(CollectiveId(id), nodes);
    return sum;
  };
  Sum reduce = make(0, ranks, 3);
  Sum all_reduce = make(1, ranks, std::nullopt);
  Sum local = make(2, alone, std::nullopt);
  REQUIRE(overlay.publish(builder.build()));
  for (Sum* sum : {&reduce, &all_reduce, &local}) sum->post_all(overlay);
  CHECK(overlay.run([&] { return reduce.is_over() && all_reduce.is_over() && local.is_over(); }));
  for (Sum* sum : {&reduce, &all_reduce, &local}) {
    CAPTURE(sum->collective.value());
    for (const auto& outcome : sum->outcomes) {
      if (outcome && !outcome->is_ok()) MESSAGE(outcome->to_string());
    }
    CHECK(sum->is_right());
  }
}

TEST_CASE("members with different operations are told both") {
  PlanBuilder builder(2);
  builder.add_link(1, 0, 80e6);
  builder.add_reduce(0, {0, 1}, {{{{1, 0}}, 40e6}});
  Overlay overlay(1, 2);
  overlay.set_members(CollectiveId(0), {0, 1});
  REQUIRE(overlay.publish(builder.build()));
  Sum sum(CollectiveId(0), {0, 1}, {std::vector<float>(1'000), std::vector<float>(1'000)}, 0);
  sum.post(overlay, 0);
  sum.reduction.op = ReduceOp::kMax;
  sum.post(overlay, 1);
  CHECK(overlay.run([&] { return sum.is_over(); }));
  for (const auto& outcome : sum.outcomes) {
    REQUIRE(outcome.has_value());
    CHECK(outcome->code() == StatusCode::kInvalidArgument);
    CHECK(outcome->message().find("float32 (sum)") != std::string::npos);
    CHECK(outcome->message().find("float32 (max)") != std::string::npos);
  }
}
