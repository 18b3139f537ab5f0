// Exponential potentials against the linear program, and water against what max-min means.
#include "planning/large/mixture.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "planning/large/ladder.h"
#include "planning/large/large_instances.h"
#include "planning/large/water_filling.h"
#include "planning/scenarios.h"

namespace square::planning {
namespace {

using testing::seed;

std::vector<double> weights_of(const Instance& instance) {
  std::vector<double> weights;
  for (const Group& group : instance.groups) weights.push_back(group.weight);
  return weights;
}

TimePoint soon() { return steady_clock().now() + std::chrono::seconds(20); }

std::vector<double> used_of(const Mixture& mixture) {
  std::vector<double> used(mixture.resources().count());
  for (const auto& ways : mixture.ways()) {
    for (const GroupWay& way : ways) {
      for (const Use& use : way.uses) used[use.resource] += way.rate * use.part;
    }
  }
  return used;
}

TEST_CASE("what settles fills the fullest resource hardly more than the program's optimum") {
  double most = 0.0;
  int far = 0;  // where capacities are decades apart
  for (std::uint64_t k = 0; k < 30; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(drawn_scenario(seed() + k, 5 + k % 6, 1 + k % 5));
    Generation trees(made.instance, generation_options(made.instance));
    const Targets targets = active_targets(made.instance);
    const Result<FairRates> exact = fair_rates(trees);
    REQUIRE(exact.is_ok());
    const double level = exact->levels.front().level;

    Mixture mixture(made.instance);
    std::vector<double> rates = weights_of(made.instance);
    for (double& rate : rates) rate *= level;
    mixture.set_rates(rates);
    settle(mixture, 400.0, soon(), true);
    CHECK(mixture.fullest() < 1.1);
    far += mixture.fullest() > 1.02 ? 1 : 0;
    most = std::max(most, mixture.fullest());
    CHECK(mixture.fullest() > 1.0 - 1e-6);
    CHECK(mixture.least_fullest() < mixture.fullest() * (1.0 + 1e-9));
    for (std::size_t c = 0; c < rates.size(); ++c) {
      double sum = 0.0;
      for (const GroupWay& way : mixture.ways()[c]) sum += way.rate;
      CHECK(sum == doctest::Approx(rates[c]));
    }
  }
  MESSAGE(far << " of 30 over 1.02, most " << most);
  CHECK(far <= 5);
}

TEST_CASE("water stops each group at a full resource of which none has more, or at its most") {
  for (std::uint64_t k = 0; k < 40; ++k) {
    CAPTURE(seed());
    CAPTURE(k);
    const ReadScenario made(drawn_scenario(seed() + k, 6 + k % 6, 2 + k % 6));
    const std::vector<double> weights = weights_of(made.instance);
    Mixture mixture(made.instance);
    mixture.set_rates(weights);
    for (int round = 0; round < 3; ++round) REQUIRE(mixture.find_ways());
    std::vector<double> most(weights.size(), kUnreachable);
    if (k % 2 == 1) most[0] = 0.5 * water_filling(made.instance, mixture)[0];
    mixture.set_rates(water_filling(made.instance, mixture, most));
    const std::vector<double> used = used_of(mixture);
    CHECK(mixture.fullest() <= 1.0 + 1e-4);
    for (std::size_t c = 0; c < weights.size(); ++c) {
      CAPTURE(c);
      const double level = mixture.rates()[c] / weights[c];
      if (mixture.rates()[c] >= most[c] * (1.0 - 1e-9)) continue;
      const auto stops = [&](const Use& use) {
        if (used[use.resource] < mixture.resources().limit(use.resource) * (1.0 - 1e-4)) return false;
        for (std::size_t other = 0; other < weights.size(); ++other) {
          if (mixture.rates()[other] / weights[other] <= level * (1.0 + 1e-9)) continue;
          for (const GroupWay& way : mixture.ways()[other]) {
            if (way.rate < 1e-5 * mixture.rates()[other]) continue;
            if (std::ranges::find(way.uses, use.resource, &Use::resource) != way.uses.end()) return false;
          }
        }
        return true;
      };
      CHECK(std::ranges::any_of(mixture.ways()[c], [&](const GroupWay& way) {
        return way.rate > 0.0 && std::ranges::any_of(way.uses, stops);
      }));
    }
  }
}

TEST_CASE("thin ways are dropped, and the others carry their rates") {
  const ReadScenario made(drawn_scenario(seed(), 10, 6));
  Mixture mixture(made.instance);
  mixture.set_rates(weights_of(made.instance));
  settle(mixture, 100.0, soon());
  mixture.drop_thin(0.1, 2);
  for (std::size_t c = 0; c < mixture.ways().size(); ++c) {
    double sum = 0.0;
    for (const GroupWay& way : mixture.ways()[c]) sum += way.rate;
    for (std::size_t a = 0; a < made.instance.groups[c].alternatives.size(); ++a)
      CHECK(std::ranges::count(mixture.ways()[c], a, &GroupWay::alternative) <= 2);
    CHECK(sum == doctest::Approx(mixture.rates()[c]));
  }
}

}  // namespace
}  // namespace square::planning
