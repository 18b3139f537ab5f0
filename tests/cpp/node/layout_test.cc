// Sums whose members call while plans change: plans that cut blocks and shares in other ways.
#include <doctest/doctest.h>

#include <algorithm>

#include "node/plan/installed_plan.h"
#include "node/sums.h"

using namespace square;
using namespace square::test;

namespace {

std::vector<std::vector<float>> three_inputs(std::size_t count = 500'000) {
  std::mt19937_64 random(5);
  std::vector<std::vector<float>> inputs;
  for (int i = 0; i < 3; ++i) inputs.push_back(whole_floats(random, count));
  return inputs;
}

PlanBuilder mesh_of_three(std::uint32_t epoch) {
  PlanBuilder builder(3, Epoch(epoch));
  for (std::uint32_t from = 0; from < 3; ++from) {
    for (std::uint32_t to = 0; to < 3; ++to) {
      if (from != to) builder.add_link(from, to, 200e6);
    }
  }
  return builder;
}

std::shared_ptr<const Plan> reduce_plan(std::uint32_t epoch, double rate_bps) {
  PlanBuilder builder = mesh_of_three(epoch);
  builder.add_reduce(0, {0, 1, 2}, {{{{2, 1}, {1, 0}}, rate_bps}});
  return builder.build();
}

// All bytes have one root; the other share has no streams.
std::shared_ptr<const Plan> all_reduce_plan(std::uint32_t epoch, std::uint32_t root) {
  const PlanBuilder::Share first{
      0, root == 0 ? 1'000U : 0U, {{{{2, 1}, {1, 0}}, 60e6}}, {{{{0, 1}, {0, 2}}, 60e6}}};
  const PlanBuilder::Share third{
      2, root == 2 ? 1'000U : 0U, {{{{0, 2}, {1, 2}}, 30e6}}, {{{{2, 1}, {1, 0}}, 30e6}}};
  PlanBuilder builder = mesh_of_three(epoch);
  if (root == 0) {
    builder.add_all_reduce({0, 1, 2}, {first, {2, 0, {}, {}}});
  } else {
    builder.add_all_reduce({0, 1, 2}, {{0, 0, {}, {}}, third});
  }
  return builder.build();
}

using MakePlan = std::function<std::shared_ptr<const Plan>(std::uint32_t epoch)>;

// The members call one by one in an order of their own; a new plan before each call.
void check_changing_plans(const MakePlan& plan_of, std::optional<std::uint32_t> root) {
  std::vector<std::uint32_t> order{0, 1, 2};
  std::uint64_t seed = 1;
  do {
    for (const int pause : {0, 20, 400}) {  // milliseconds: sums wait, or are on their way
      CAPTURE(order[0]);
      CAPTURE(order[1]);
      CAPTURE(pause);
      Overlay overlay(seed++, 3);
      overlay.set_members(CollectiveId(0), {0, 1, 2});
      Sum sum(CollectiveId(0), {0, 1, 2}, three_inputs(), root, pause != 20);
      std::uint32_t epoch = 0;
      for (const std::uint32_t rank : order) {
        REQUIRE(overlay.publish(plan_of(++epoch)));
        sum.post(overlay, rank);
        overlay.run([] { return false; }, std::chrono::milliseconds(pause));
      }
      CHECK(overlay.run([&] { return sum.is_over(); }));
      for (const auto& outcome : sum.outcomes) {
        if (outcome) CHECK_MESSAGE(outcome->is_ok(), outcome->to_string());
      }
      CHECK(sum.is_right());
    }
  } while (std::ranges::next_permutation(order).found);
}

}  // namespace

TEST_CASE("members of a reduce that call under plans with other block sizes agree on one") {
  const auto plan_of = [](std::uint32_t epoch) { return reduce_plan(epoch, epoch % 2 == 0 ? 80e6 : 20e6); };
  const InstalledPlan slow(plan_of(1), "n0", kMinWindowBytes);
  const InstalledPlan fast(plan_of(2), "n0", kMinWindowBytes);
  const auto block_bytes = [](const InstalledPlan& plan) {
    return plan.find(CollectiveId(0))->block_bytes(SessionId(0), 1U << 20U);
  };
  REQUIRE(block_bytes(slow) != block_bytes(fast));
  check_changing_plans(plan_of, 0);
}

TEST_CASE("members of an all-reduce that call under plans with other roots agree on one") {
  check_changing_plans([](std::uint32_t epoch) { return all_reduce_plan(epoch, epoch % 2 == 0 ? 2 : 0); },
                       std::nullopt);
}

TEST_CASE("an all-reduce that runs goes on while plans give its share no streams") {
  Overlay overlay(7, 3);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  REQUIRE(overlay.publish(all_reduce_plan(1, 0)));
  Sum sum(CollectiveId(0), {0, 1, 2}, three_inputs(4'000'000));  // more than half a second
  sum.post_all(overlay);
  for (std::uint32_t epoch = 2; epoch < 6; ++epoch) {
    overlay.run([] { return false; }, std::chrono::milliseconds(40));
    // Waits until the plan before the active one is free: the sums must have left it.
    REQUIRE(overlay.publish(all_reduce_plan(epoch, 2)));
    CHECK_FALSE(sum.is_over());
  }
  CHECK(overlay.run([&] { return sum.is_over(); }));
  CHECK(sum.is_right());
}
