// Overlays drawn by a seed, and what the policy "exact" reads of a scenario.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "planning/exact/fairness.h"
#include "planning/exact/instance.h"
#include "planning/exact/policy.h"
#include "planning/exact/solution.h"
#include "planning/problem/sessions.h"
#include "square/planner.h"

namespace square::planning {

// The instance of a scenario, with all that it refers to.
struct ReadScenario {
  explicit ReadScenario(Scenario given) : scenario(std::move(given)) {
    problem.network = with_headroom(scenario).value();
    problem.sessions = expand_sessions(scenario, kExactExpansion).value();
    index_sessions(scenario, problem);
    instance = make_instance(problem).value();
  }
  ReadScenario(const ReadScenario&) = delete;
  ReadScenario& operator=(const ReadScenario&) = delete;

  const Scenario scenario;
  Problem problem;
  Instance instance;
};

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] double number() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }
  [[nodiscard]] std::size_t below(std::size_t end) { return random_() % end; }

  // Links N(10, 3) Mbit/s, or over a factor of 100, all of them or most; limits of nodes or none.
  std::vector<NodeId> add_overlay(Topology& topology, std::size_t nodes) {
    const double wide = number() < 0.3 ? 2.0 : 0.0;
    const double density = number() < 0.7 ? 1.0 : 0.6;
    const bool limits = number() < 0.5;
    std::vector<NodeId> ids;
    for (std::size_t v = 0; v < nodes; ++v) {
      TopologyNode node{.name = fmt::format("n{}", v)};
      const double usual = 4e6 * static_cast<double>(nodes);
      if (limits) node.egress_bps = usual * (0.5 + number());
      if (limits) node.ingress_bps = usual * (0.5 + number());
      ids.push_back(topology.add_node(std::move(node)).value());
    }
    std::normal_distribution<double> capacity(10e6, 3e6);
    for (std::size_t u = 0; u < nodes; ++u) {
      for (std::size_t v = 0; v < nodes; ++v) {
        const bool is_on_ring = v == (u + 1) % nodes;  // so that all reach all
        if (u == v || (!is_on_ring && number() >= density)) continue;
        LinkProperties link;
        link.capacity_bps = std::max(1e6, capacity(random_)) * std::pow(10.0, wide * (number() - 0.5));
        REQUIRE(topology.add_link(ids[u], ids[v], link).is_ok());
      }
    }
    return ids;
  }

 private:
  std::mt19937_64 random_;
};

// By group, against the program over trees.
inline void check_against_trees(const Instance& instance, const std::vector<double>& rate) {
  Generation trees(instance, generation_options(instance));
  const Result<FairRates> expected = fair_rates(trees);
  REQUIRE(expected.is_ok());
  REQUIRE(rate.size() == expected->rate.size());
  for (std::size_t c = 0; c < rate.size(); ++c) {
    CAPTURE(c);
    CHECK(rate[c] == doctest::Approx(expected->rate[c]).epsilon(1e-6));
  }
}

}  // namespace square::planning
