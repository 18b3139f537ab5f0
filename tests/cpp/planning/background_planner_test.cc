// A plan at once, and the better one when it is there.
#include <doctest/doctest.h>

#include <future>
#include <mutex>
#include <thread>

#include "planning/scenarios.h"
#include "square/clock.h"
#include "square/planner.h"
#include "square/validator.h"

namespace square {
namespace {

using namespace square::testing;
using std::chrono_literals::operator""h;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// An exact plan of it takes `n` = 12 a tenth of a second, 40 minutes.
Scenario all_reduce(std::size_t n) {
  Scenario scenario = scenario_on(mesh(n, seed()));
  scenario.policy.name = "exact";
  add_collective(scenario, CollectiveOp::kAllReduce, everyone(scenario.topology)).algorithm =
      AllReduceAlgorithm::kPlanned;
  return scenario;
}

// Counts the calls of `ready`.
class Notices {
 public:
  std::function<void()> notice() {
    return [this] {
      const std::lock_guard lock(mutex_);
      ++count_;
      changed_.notify_all();
    };
  }
  void wait_for(int count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, 120s, [&] { return count_ >= count; }));
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

TEST_CASE("what is made in time is the policy's own plan, and there is no better one") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  const Scenario scenario = all_reduce(4);
  const Result<PlanResult> made = planner.plan(scenario, 1h);
  REQUIRE(made.is_ok());
  CHECK_FALSE(made->plan.provisional);
  CHECK(made->plan.min_rate_bps == planned(scenario).plan.min_rate_bps);
  CHECK_FALSE(planner.take_better().has_value());
  CHECK(notices.count() == 0);
}

TEST_CASE("without patience a quick plan comes first, then notice, then the policy's own, once") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  const Scenario scenario = all_reduce(12);
  const Result<PlanResult> first = planner.plan(scenario, Duration{0});
  REQUIRE(first.is_ok());
  CHECK(first->plan.provisional);
  CHECK(find_violations(first->plan).empty());
  notices.wait_for(1);
  const std::optional<Result<PlanResult>> better = planner.take_better();
  REQUIRE(better.has_value());
  REQUIRE(better->is_ok());
  CHECK_FALSE((*better)->plan.provisional);
  CHECK((*better)->plan.min_rate_bps >= first->plan.min_rate_bps);
  CHECK_FALSE(planner.take_better().has_value());
}

TEST_CASE("another scenario takes the place of one that takes minutes") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  const Result<PlanResult> first = planner.plan(all_reduce(40), Duration{0});
  REQUIRE(first.is_ok());
  CHECK(first->plan.provisional);
  const Result<PlanResult> second = planner.plan(all_reduce(4), 1h);
  REQUIRE(second.is_ok());
  CHECK_FALSE(second->plan.provisional);
  CHECK(second->plan.nodes.size() == 4);
  CHECK_FALSE(planner.take_better().has_value());
  CHECK(notices.count() == 0);
}

TEST_CASE("while one change follows another the policy's own plan comes all the same") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  Scenario scenario = all_reduce(14);
  REQUIRE(planner.plan(scenario, Duration{0}).is_ok());
  scenario.collectives.resize(2, scenario.collectives.front());
  scenario.collectives[1].op = CollectiveOp::kBroadcast;
  const TimePoint end = steady_clock().now() + 60s;
  for (std::uint32_t id = 1; notices.count() == 0 && steady_clock().now() < end; ++id) {
    scenario.collectives[1].id = CollectiveId(id);
    const Result<PlanResult> changed = planner.plan(scenario, Duration{0});
    REQUIRE(changed.is_ok());
    CHECK(find_violations(changed->plan).empty());
    CHECK(changed->plan.find_collective(CollectiveId(id)) != nullptr);
  }
  REQUIRE(notices.count() > 0);
  // Of what was there before, with what is new on top; then of all.
  bool is_provisional = true;
  while (is_provisional && steady_clock().now() < end + 60s) {
    const std::optional<Result<PlanResult>> made = planner.take_better();
    if (!made) {
      std::this_thread::sleep_for(10ms);
      continue;
    }
    REQUIRE(made->is_ok());
    CHECK((*made)->plan.find_collective(scenario.collectives[1].id) != nullptr);
    is_provisional = (*made)->plan.provisional;
  }
  CHECK_FALSE(is_provisional);
}

TEST_CASE("another policy is planned anew, and not put on top of a plan for the one before") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  Scenario scenario = all_reduce(40);
  REQUIRE(planner.plan(scenario, Duration{0}).is_ok());
  const auto most_streams = [&] {
    const Result<PlanResult> made = planner.plan(scenario, Duration{0});
    REQUIRE(made.is_ok());
    std::size_t most = 0;
    for (const PlanSession& session : made->plan.sessions) most = std::max(most, session.streams.size());
    return most;
  };
  REQUIRE(most_streams() > 1);
  scenario.policy.max_streams = 1;
  CHECK(most_streams() == 1);
  CHECK(most_streams() == 1);
}

TEST_CASE("cancelled, it says so, and the next plan is made; it goes away in the middle of a plan") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  REQUIRE(planner.plan(all_reduce(40), Duration{0}).is_ok());
  planner.cancel();
  notices.wait_for(1);
  const std::optional<Result<PlanResult>> better = planner.take_better();
  REQUIRE(better.has_value());
  CHECK(better->status().code() == StatusCode::kCancelled);
  CHECK_FALSE(planner.plan(all_reduce(4), 1h)->plan.provisional);
  REQUIRE(planner.plan(all_reduce(40), Duration{0}).is_ok());
}

TEST_CASE("stopped, whatever is asked for is cancelled") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  planner.stop();
  Scenario cheap = all_reduce(4);  // for which there is no quick plan
  cheap.policy.objective = Objective::kCost;
  cheap.collectives[0].required_bps = 1 * kMbps;
  CHECK(planner.plan(cheap, Duration{0}).status().code() == StatusCode::kCancelled);
}

TEST_CASE("where there is no quick plan it waits; what cannot be planned is refused") {
  Notices notices;
  BackgroundPlanner planner(notices.notice());
  Scenario cheap = all_reduce(4);
  cheap.policy.objective = Objective::kCost;
  cheap.collectives[0].required_bps = 1 * kMbps;
  const Result<PlanResult> made = planner.plan(cheap, Duration{0});
  REQUIRE(made.is_ok());
  CHECK_FALSE(made->plan.provisional);
  Scenario apart = all_reduce(4);
  apart.topology = named_nodes({"a", "b", "c", "d"});
  link(apart.topology, "a", "b", 1);
  CHECK(planner.plan(apart, Duration{0}).status().code() == StatusCode::kFailedPrecondition);
  CHECK(notices.count() == 0);
}

}  // namespace
}  // namespace square
