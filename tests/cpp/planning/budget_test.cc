// Plans that are cancelled, or run out of time, at any point, and what planners are like after it.
#include "square/budget.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "base/spending.h"
#include "planning/scenarios.h"
#include "square/planner.h"

namespace square {
namespace {

using namespace square::testing;

// Looks are as many as nodes, rounds and pivots: some plans have too many to stop at each.
constexpr std::uint64_t kEveryLookUntil = 40;
constexpr std::uint64_t kStride = 7;  // per cent

Scenario exact_on(Topology topology) {
  Scenario scenario = scenario_on(std::move(topology));
  scenario.policy.name = "exact";
  return scenario;
}

std::vector<NodeId> first_nodes(std::size_t n) {
  std::vector<NodeId> members;
  for (std::size_t v = 0; v < n; ++v) members.push_back(node(v));
  return members;
}

Scenario all_reduce_on(Topology topology) {
  Scenario scenario = exact_on(std::move(topology));
  add_collective(scenario, CollectiveOp::kAllReduce, everyone(scenario.topology)).algorithm =
      AllReduceAlgorithm::kPlanned;
  return scenario;
}

Scenario with(const std::string& policy, CollectiveOp op, std::size_t nodes, std::size_t members,
              std::size_t collectives = 1) {
  Scenario scenario = scenario_on(mesh(nodes, seed()));
  scenario.policy.name = policy;
  for (std::size_t c = 0; c < collectives; ++c) {
    std::vector<NodeId> group = first_nodes(members);
    std::rotate(group.begin(), group.begin() + static_cast<std::ptrdiff_t>(c % members), group.end());
    add_collective(scenario, op, group);
  }
  return scenario;
}

std::string comparable(Result<PlanResult> result) {
  INFO(result.status().to_string());
  REQUIRE(result.is_ok());
  result->plan.solve_seconds = 0.0;
  return to_json(result->plan);
}

// Small enough to be stopped at each of their looks.
std::vector<Scenario> small_scenarios() {
  Scenario bounded = with("exact", CollectiveOp::kBroadcast, 5, 4);
  bounded.collectives[0].max_latency.assign(4, std::chrono::seconds(1));
  return {all_reduce_on(mesh(4, seed())),
          with("exact", CollectiveOp::kAllToAll, 4, 4),
          with("exact", CollectiveOp::kBroadcast, 6, 4, 2),
          with("exact", CollectiveOp::kBroadcast, 5, 5, 3),
          std::move(bounded),
          with("square", CollectiveOp::kBroadcast, 4, 4, 2),
          with("mcf", CollectiveOp::kAllGather, 4, 3),
          with("shortest-path", CollectiveOp::kBroadcast, 4, 4)};
}

TEST_CASE("a budget without an end is never spent; copies are one budget") {
  const Budget none;
  none.cancel();
  CHECK_FALSE(none.is_cancelled());
  const Budget some = Budget::until_cancelled();
  const Budget same = some;
  CHECK_FALSE(same.is_cancelled());
  some.cancel();
  CHECK(same.is_cancelled());
}

TEST_CASE("a plan that has its budget is the plan without one") {
  for (const Scenario& scenario : small_scenarios()) {
    const Budget budget = Budget::within(std::chrono::hours(1));
    CHECK((comparable(make_plan(scenario, {.budget = budget})) == comparable(make_plan(scenario))));
    CHECK(budget.looks() > 10);
  }
}

TEST_CASE("cancelled at any look: CANCELLED, and the planner is as it was") {
  for (const Scenario& scenario : small_scenarios()) {
    CAPTURE(scenario.policy.name);
    Scenario changed = scenario;
    changed.collectives.push_back(scenario.collectives.front());
    changed.collectives.back().id = CollectiveId(77);
    const Budget whole = Budget::until_cancelled();
    Planner undisturbed;
    static_cast<void>(comparable(undisturbed.plan(scenario)));
    const std::string expected = comparable(undisturbed.plan(changed, {.budget = whole}));
    const std::uint64_t looks = whole.looks();
    Planner planner;
    static_cast<void>(comparable(planner.plan(scenario)));
    for (std::uint64_t n = 0; n < looks; n += n < kEveryLookUntil ? 1 : 1 + n * kStride / 100) {
      CAPTURE(n);
      const Status status = planner.plan(changed, {.budget = Budget::of_looks(n)}).status();
      CHECK(status.code() == StatusCode::kCancelled);
    }
    CHECK((comparable(planner.plan(changed)) == expected));
  }
}

TEST_CASE("a deadline that has passed names what the planner was at") {
  const Scenario scenario = with("exact", CollectiveOp::kBroadcast, 6, 4);
  const Result<PlanResult> result =
      make_plan(scenario, {.budget = Budget::within(std::chrono::milliseconds(-1))});
  CHECK(result.status().code() == StatusCode::kDeadlineExceeded);
  const Status late =
      make_plan(all_reduce_on(mesh(64, seed())), {.budget = Budget::within(std::chrono::milliseconds(400))})
          .status();
  CHECK(late.code() == StatusCode::kDeadlineExceeded);
  CHECK(late.message().find("while looking for") != std::string::npos);
}

TEST_CASE("a frontier can be cancelled") {
  Scenario scenario = with("exact", CollectiveOp::kBroadcast, 5, 4);
  const Budget whole = Budget::until_cancelled();
  REQUIRE(cost_frontier(scenario, 4, whole).is_ok());
  for (std::uint64_t n = 0; n < whole.looks(); n += 1 + n / 4) {
    CHECK(cost_frontier(scenario, 4, Budget::of_looks(n)).status().code() == StatusCode::kCancelled);
  }
}

// From another thread, in the middle of plans that take seconds to minutes. The bound is for a
// machine that has other things to do; without cancellation each of these is far over it.
TEST_CASE("large plans stop soon after they are cancelled") {
  constexpr auto kSoon = std::chrono::seconds(3);
  const std::vector<std::function<Scenario()>> large = {
      [] { return all_reduce_on(mesh(72, seed())); },
      [] { return with("exact", CollectiveOp::kAllToAll, 64, 64); },
      [] { return with("exact", CollectiveOp::kBroadcast, 63, 21, 12); },
      [] { return with("square", CollectiveOp::kBroadcast, 40, 40, 40); },
      [] { return with("mcf", CollectiveOp::kAllGather, 40, 40, 4); }};
  for (std::size_t k = 0; k < large.size(); ++k) {
    CAPTURE(k);
    const Scenario scenario = large[k]();
    const Budget budget = Budget::until_cancelled();
    TimePoint cancelled_at;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      cancelled_at = steady_clock().now();
      budget.cancel();
    });
    const Status status = make_plan(scenario, {.budget = budget}).status();
    const TimePoint ended = steady_clock().now();
    other.join();
    CHECK(status.code() == StatusCode::kCancelled);
    CHECK(ended - cancelled_at < kSoon);
    MESSAGE(k, ": ", to_seconds(ended - cancelled_at) * 1e3, " ms after it, ", status.message());
  }
}

TEST_CASE("a part of a computation that has a budget of its own ends with the whole") {
  const auto whole = spend(Budget::of_looks(5), []() -> Result<int> {
    const auto part = spend(Budget::within(std::chrono::hours(1)), []() -> Result<int> {
      for (;;) look_at_budget();
    });
    CHECK(part.status().code() == StatusCode::kCancelled);
    look_at_budget();
    FAIL("it went on");
    return 0;
  });
  CHECK(whole.status().code() == StatusCode::kCancelled);
}

}  // namespace
}  // namespace square
