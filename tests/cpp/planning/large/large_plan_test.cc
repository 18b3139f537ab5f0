// Plans by exponential potentials: valid, certified, and near the optimum that the program finds.
#include "planning/large/large_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "planning/exact/plan_writing.h"
#include "planning/large/large_instances.h"
#include "planning/scenarios.h"
#include "seed_step.h"
#include "square/validator.h"

namespace square::planning {
namespace {

using testing::seed;

Plan large_plan(const ReadScenario& made) {
  Result<ExactSolution> solution = solve_large(made.instance, true);
  REQUIRE_MESSAGE(solution.is_ok(), solution.status().to_string());
  Plan plan = write_plan(made.problem, made.instance, *solution);
  const Status valid = validate(plan);
  CHECK_MESSAGE(valid.is_ok(), valid.to_string());
  return plan;
}

std::vector<double> sorted_levels(const Instance& instance, const std::vector<double>& rate) {
  std::vector<double> levels;
  for (std::size_t c = 0; c < rate.size(); ++c) levels.push_back(rate[c] / instance.groups[c].weight);
  std::sort(levels.begin(), levels.end());
  return levels;
}

// Each as it is in the whole: an error of one level comes back larger in those above it.
TEST_CASE("rates are nearly those of the program, and levels are proven") {
  double worst = 0.0;
  std::size_t far = 0;
  std::size_t low = 0;
  double least = 1.0;
  std::size_t levels = 0;
  for (std::uint64_t k = 0; k < 40; k += square::test::kSeedStep) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(drawn_scenario(seed() + k, 6 + k % 8, 2 + k % 7));
    const Plan plan = large_plan(made);
    Generation trees(made.instance, generation_options(made.instance));
    const Result<FairRates> exact = fair_rates(trees);
    REQUIRE(exact.is_ok());
    std::vector<double> rate;
    for (const PlanCollective& collective : plan.collectives) rate.push_back(collective.rate_bps);
    const std::vector<double> got = sorted_levels(made.instance, rate);
    const std::vector<double> best = sorted_levels(made.instance, exact->rate);
    least = std::min(least, got.front() / best.front());
    CHECK(got.front() > 0.9 * best.front());
    low += got.front() < 0.95 * best.front() ? 1 : 0;
    CHECK(got.front() < best.front() * (1.0 + 1e-6));
    const std::vector<LevelGap> gaps = certified_gaps(plan).value();
    CHECK(gaps.front().bound_bps > best.front() * (1.0 - 1e-6));
    for (const LevelGap& gap : gaps) {
      worst = std::max(worst, gap.rate_gap);
      far += gap.rate_gap > 0.05 ? 1 : 0;
      ++levels;
    }
  }
  MESSAGE("worst gap " << worst << ", " << far << " of " << levels << " levels over 0.05, " << low
                       << " least rates below 0.95, least " << least);
  CHECK(far * 10 <= levels);
  CHECK(low <= 1);
}

TEST_CASE("a deadline that has passed leaves a plan that is valid, with a bound of its least rate") {
  for (std::uint64_t k = 0; k < 20; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    Scenario scenario = drawn_scenario(seed() + k, 8 + k % 8, 3 + k % 7);
    scenario.policy.deadline_seconds = 1e-6;
    const Plan plan = large_plan(ReadScenario(std::move(scenario)));
    CHECK(std::isfinite(certified_gaps(plan).value().front().rate_gap));
    for (const PlanCollective& collective : plan.collectives) CHECK(collective.rate_bps > 0.0);
  }
}

TEST_CASE("no session has more streams than are allowed") {
  Scenario scenario = drawn_scenario(seed(), 12, 6);
  scenario.policy.max_streams = 2;
  const Plan plan = large_plan(ReadScenario(std::move(scenario)));
  for (const PlanSession& session : plan.sessions) CHECK(session.streams.size() <= 2);
}

TEST_CASE("large are many sessions to some of many nodes") {
  CHECK_FALSE(is_large(ReadScenario(drawn_scenario(seed(), 40, 10)).instance));
}

}  // namespace
}  // namespace square::planning
