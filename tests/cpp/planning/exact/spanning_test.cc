// Sessions that reach all nodes: rates against every cut there is, levels against their definition.
#include "planning/exact/spanning.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "planning/exact/max_flow.h"
#include "planning/scenarios.h"
#include "seed_step.h"

namespace square::planning {
namespace {

using testing::seed;

struct SpanningInstance {
  Digraph graph{0};
  std::vector<double> capacity;
  std::vector<SpanningGroup> groups;

  void add_arc(int from, int to, double amount) {
    graph.add_arc(from, to);
    capacity.push_back(amount);
  }
};

// Small graphs of every kind: sparse to dense, parallel arcs and loops, arcs that carry nothing, capacities
// that are equal, alike or decades apart; groups with several roots, some at one node.
SpanningInstance spanning_instance(std::mt19937_64& random, int nodes) {
  std::uniform_real_distribution<double> number(0.0, 1.0);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  SpanningInstance instance{Digraph(nodes), {}, {}};
  const double density = 0.15 + 0.85 * number(random);
  const int kind = below(4);
  const auto draw = [&] {
    if (number(random) < 0.05) return 0.0;
    if (kind == 0) return 10.0;
    if (kind == 1) return static_cast<double>(1 + below(3));
    return kind == 2 ? 0.5 + number(random) : std::pow(10.0, 9.0 * number(random));
  };
  for (int u = 0; u < nodes; ++u) {
    for (int v = 0; v < nodes; ++v) {
      if (u != v && number(random) < density) instance.add_arc(u, v, draw());
    }
  }
  for (int extra = below(4); extra > 0; --extra) instance.add_arc(below(nodes), below(nodes), draw());
  const bool is_weighted = number(random) < 0.5;
  for (int g = 1 + below(nodes); g > 0; --g) {
    SpanningGroup group{is_weighted ? std::pow(10.0, 2.0 * number(random) - 1.0) : 1.0, {}};
    for (int root = 1 + (number(random) < 0.4 ? below(3) : 0); root > 0; --root) {
      group.roots.emplace_back(below(nodes), is_weighted ? 0.05 + number(random) : 1.0);
    }
    instance.groups.push_back(std::move(group));
  }
  return instance;
}

long double capacity_into(const SpanningInstance& instance, const std::vector<bool>& inside) {
  long double capacity = 0.0;
  for (std::size_t e = 0; e < instance.capacity.size(); ++e) {
    const Digraph::Arc& arc = instance.graph.arcs[e];
    if (!inside[arc.from] && inside[arc.to]) capacity += instance.capacity[e];
  }
  return capacity;
}

long double fraction_outside(const SpanningGroup& group, const std::vector<bool>& inside) {
  long double fraction = 0.0;
  for (const auto& [root, part] : group.roots) fraction += inside[root] ? 0.0 : part;
  return fraction;
}

long double needed(const SpanningInstance& instance, const std::vector<double>& rate,
                   const std::vector<bool>& inside) {
  long double sum = 0.0;
  for (std::size_t g = 0; g < rate.size(); ++g) {
    sum += fraction_outside(instance.groups[g], inside) * rate[g];
  }
  return sum;
}

std::vector<bool> set_of(unsigned mask, int nodes) {
  std::vector<bool> inside(nodes);
  for (int v = 0; v < nodes; ++v) inside[v] = ((mask >> v) & 1U) != 0;
  return inside;
}

// The definition: raise all groups together until some set fills, stop those it limits, go on with the
// others.
std::vector<long double> rates_by_all_cuts(const SpanningInstance& instance) {
  const int nodes = instance.graph.node_count();
  const std::size_t count = instance.groups.size();
  std::vector<long double> rate(count, 0.0);
  std::vector<bool> active(count, true);
  while (std::find(active.begin(), active.end(), true) != active.end()) {
    long double level = std::numeric_limits<long double>::infinity();
    std::vector<bool> tightest;
    for (unsigned mask = 1; mask < (1U << nodes); ++mask) {
      const std::vector<bool> inside = set_of(mask, nodes);
      long double left = capacity_into(instance, inside);
      long double slope = 0.0;
      for (std::size_t g = 0; g < count; ++g) {
        const long double fraction = fraction_outside(instance.groups[g], inside);
        (active[g] ? slope : left) += fraction * (active[g] ? instance.groups[g].weight : -rate[g]);
      }
      if (slope <= 0.0 || left / slope >= level) continue;
      level = left / slope;
      tightest = inside;
    }
    for (std::size_t g = 0; g < count; ++g) {
      if (!active[g] || fraction_outside(instance.groups[g], tightest) <= 0.0) continue;
      active[g] = false;
      rate[g] = std::max(level, 0.0L) * instance.groups[g].weight;
    }
  }
  return rate;
}

// What a level says: its groups have that level, its set is full, and of the groups with a root outside none
// has more. Every group having such a set, with rates that are feasible, is lexicographic max-min.
void check_levels(const SpanningInstance& instance, const SpanningAnswer& answer) {
  REQUIRE(answer.rate.size() == instance.groups.size());
  std::vector<int> stops(instance.groups.size(), 0);
  double before = 0.0;
  for (const SpanningLevel& level : answer.levels) {
    CHECK(level.level >= before);
    before = level.level;
    CHECK(std::is_sorted(level.far_side.begin(), level.far_side.end()));
    CHECK(std::is_sorted(level.groups.begin(), level.groups.end()));
    REQUIRE_FALSE(level.far_side.empty());
    REQUIRE_FALSE(level.groups.empty());
    std::vector<bool> inside(instance.graph.node_count(), false);
    for (const int v : level.far_side) inside[v] = true;
    for (const int g : level.groups) {
      ++stops[g];
      CHECK(answer.rate[g] == level.level * instance.groups[g].weight);
      CHECK(fraction_outside(instance.groups[g], inside) > 0.0);
    }
    const long double capacity = capacity_into(instance, inside);
    CHECK(std::abs(needed(instance, answer.rate, inside) - capacity) <= 1e-12 * capacity);
    for (std::size_t g = 0; g < instance.groups.size(); ++g) {
      if (fraction_outside(instance.groups[g], inside) <= 0.0) continue;
      CHECK(answer.rate[g] <= level.level * instance.groups[g].weight * (1.0 + 1e-15));
    }
  }
  CHECK(std::all_of(stops.begin(), stops.end(), [](int times) { return times == 1; }));
}

SpanningAnswer solve(const SpanningInstance& instance) {
  const Result<SpanningAnswer> answer = solve_spanning(instance.graph, instance.capacity, instance.groups);
  REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
  return *answer;
}

TEST_CASE("the amount and the cut of a maximum flow are the least of all cuts") {
  for (std::uint64_t round = 0; round < 2000; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 1 + static_cast<int>(random() % 8);
    const SpanningInstance instance = spanning_instance(random, nodes);
    std::vector<double> supply(nodes, 0.0);
    for (const SpanningGroup& group : instance.groups) supply[group.roots[0].first] += 3.0 * group.weight;
    const int sink = static_cast<int>(random() % nodes);
    std::vector<bool> is_closed(nodes, false);
    MaxFlow flow(instance.graph, instance.capacity);
    flow.close(sink);
    flow.open_all();
    for (int v = 0; v < nodes; ++v) {
      is_closed[v] = v != sink && random() % 6 == 0;
      if (is_closed[v]) flow.close(v);
    }
    // Nothing enters or leaves through closed nodes.
    const auto value = [&](const std::vector<bool>& inside) {
      long double sum = 0.0;
      for (int v = 0; v < nodes; ++v) sum += inside[v] ? supply[v] : 0.0;
      for (std::size_t e = 0; e < instance.capacity.size(); ++e) {
        const auto [from, to] = instance.graph.arcs[e];
        if (!is_closed[from] && !inside[from] && inside[to]) sum += instance.capacity[e];
      }
      return static_cast<double>(sum);
    };
    double least = std::numeric_limits<double>::infinity();
    for (unsigned mask = 1; mask < (1U << nodes); ++mask) {
      const std::vector<bool> inside = set_of(mask, nodes);
      bool counts = inside[sink];
      for (int v = 0; v < nodes; ++v) counts = counts && !(inside[v] && is_closed[v]);
      if (counts) least = std::min(least, value(inside));
    }
    const double most = flow.run(supply, sink, std::numeric_limits<double>::infinity());
    CHECK(std::abs(most - least) <= 1e-12 * least);
    std::vector<bool> inside(nodes, false);
    for (const int v : flow.sink_side()) inside[v] = true;
    CHECK(inside[sink]);
    CHECK(std::abs(value(inside) - least) <= 1e-12 * least);
    const double early = flow.run(supply, sink, least / 2.0);
    CHECK((least == 0.0 || early > least / 2.0));
    CHECK(early <= least * (1.0 + 1e-12));
  }
}

TEST_CASE("spanning rates are those of all cuts") {
  int wide_cuts = 0;
  int later_levels = 0;
  int zero_levels = 0;
  for (std::uint64_t round = 0; round < 3000; round += square::test::kSeedStep) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 7);
    const SpanningInstance instance = spanning_instance(random, nodes);
    const SpanningAnswer answer = solve(instance);
    check_levels(instance, answer);
    for (unsigned mask = 1; mask < (1U << nodes); ++mask) {
      const std::vector<bool> inside = set_of(mask, nodes);
      CHECK(needed(instance, answer.rate, inside) <= capacity_into(instance, inside) * (1.0 + 1e-12));
    }
    const std::vector<long double> expected = rates_by_all_cuts(instance);
    for (std::size_t g = 0; g < expected.size(); ++g) {
      CHECK(std::abs(answer.rate[g] - expected[g]) <= 1e-10 * expected[g]);
    }
    for (const SpanningLevel& level : answer.levels) {
      wide_cuts += level.far_side.size() > 1 ? 1 : 0;
      later_levels += level.level > answer.levels.front().level ? 1 : 0;
      zero_levels += level.level == 0.0 ? 1 : 0;
    }
  }
  CHECK(wide_cuts > 100 / square::test::kSeedStep);
  CHECK(later_levels > 100 / square::test::kSeedStep);
  CHECK(zero_levels > 100);
}

TEST_CASE("spanning rates of larger overlays fit, by a flow to each node") {
  for (std::uint64_t round = 0; round < 60; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 20 + static_cast<int>(random() % 40);
    SpanningInstance instance = spanning_instance(random, nodes);
    for (int v = 0; v < nodes; ++v) instance.add_arc(v, (v + 1) % nodes, 0.01);
    const SpanningAnswer answer = solve(instance);
    check_levels(instance, answer);
    std::vector<double> supply(nodes, 0.0);
    double all = 0.0;
    for (std::size_t g = 0; g < instance.groups.size(); ++g) {
      for (const auto& [root, fraction] : instance.groups[g].roots) {
        supply[root] += fraction * answer.rate[g];
        all += fraction * answer.rate[g];
      }
    }
    MaxFlow flow(instance.graph, instance.capacity);
    for (int v = 0; v < nodes; ++v) CHECK(flow.run(supply, v, all) >= all * (1.0 - 1e-12));
  }
}

TEST_CASE("a full mesh of equal links gives each of its roots one link") {
  constexpr int kNodes = 16;
  SpanningInstance instance{Digraph(kNodes), {}, {}};
  for (int u = 0; u < kNodes; ++u) {
    instance.groups.push_back({1.0, {{u, 1.0}}});
    for (int v = 0; v < kNodes; ++v) {
      if (u != v) instance.add_arc(u, v, 10.0);
    }
  }
  for (const double rate : solve(instance).rate) CHECK(rate == doctest::Approx(10.0).epsilon(1e-14));
}

TEST_CASE("each root of a one-way line may stop at a level of its own") {
  // The k-th forward arc is for the first k roots, and three times as wide as the one before.
  constexpr int kNodes = 12;
  SpanningInstance instance{Digraph(kNodes), {}, {}};
  for (int v = 0; v + 1 < kNodes; ++v) {
    instance.add_arc(v, v + 1, std::pow(3.0, v));
    instance.add_arc(v + 1, v, 1e7);
  }
  for (int v = 0; v < kNodes; ++v) instance.groups.push_back({1.0, {{v, 1.0}}});
  const SpanningAnswer answer = solve(instance);
  check_levels(instance, answer);
  REQUIRE(answer.levels.size() == kNodes);
  CHECK(answer.rate[0] == 1.0);
  for (int v = 1; v + 1 < kNodes; ++v) CHECK(answer.rate[v] == doctest::Approx(2.0 * std::pow(3.0, v - 1)));
  // Into the first node leads one arc, for all roots but its own.
  CHECK(answer.rate[kNodes - 1] == doctest::Approx(1e7 - std::pow(3.0, kNodes - 2) + 1.0));
}

TEST_CASE("a root that cannot reach all nodes gets nothing, by a set that nothing leads into") {
  SpanningInstance instance{Digraph(5), {}, {}};
  instance.add_arc(0, 1, 5.0);
  instance.add_arc(1, 0, 4.0);
  instance.add_arc(1, 2, 7.0);
  instance.add_arc(2, 3, 6.0);
  instance.add_arc(3, 2, 8.0);
  instance.add_arc(3, 4, 9.0);
  instance.add_arc(4, 3, 0.0);
  instance.groups = {{1.0, {{2, 1.0}}}, {1.0, {{4, 0.5}, {0, 0.5}}}, {2.0, {{0, 1.0}}}};
  const SpanningAnswer answer = solve(instance);
  check_levels(instance, answer);
  CHECK(answer.rate[0] == 0.0);
  CHECK(answer.rate[1] == 0.0);
  CHECK(answer.rate[2] == doctest::Approx(5.0));
}

TEST_CASE("spanning sessions name what they cannot take") {
  SpanningInstance instance{Digraph(2), {}, {}};
  instance.add_arc(0, 1, 1.0);
  const auto message = [&](const std::vector<double>& capacity, const std::vector<SpanningGroup>& groups) {
    const Result<SpanningAnswer> answer = solve_spanning(instance.graph, capacity, groups);
    REQUIRE_FALSE(answer.is_ok());
    CHECK(answer.status().code() == StatusCode::kInvalidArgument);
    return answer.status().message();
  };
  const double infinite = std::numeric_limits<double>::infinity();
  const auto names = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(names(message({}, {}), "0 capacities for 1 arcs"));
  CHECK(names(message({-1.0}, {}), "arc 0 has capacity -1"));
  CHECK(names(message({infinite}, {}), "arc 0 has capacity inf"));
  CHECK(names(message({1.0}, {{1.0, {{0, 1.0}}}, {0.0, {{0, 1.0}}}}), "group 1 has weight 0"));
  CHECK(names(message({1.0}, {{1.0, {}}}), "0 roots"));
  CHECK(names(message({1.0}, {{1.0, {{2, 1.0}}}}), "root at node 2"));
  CHECK(names(message({1.0}, {{1.0, {{0, 0.0}}}}), "fraction 0"));
  CHECK(names(message({1.0}, {{1e-200, {{0, 1e-200}}}}), "also times the weight"));
  CHECK_FALSE(solve_spanning(Digraph(1), {}, {{1.0, {{0, 1.0}}}}).is_ok());
  const Result<SpanningAnswer> nothing = solve_spanning(instance.graph, {1.0}, {});
  REQUIRE(nothing.is_ok());
  CHECK(nothing->levels.empty());
}

}  // namespace
}  // namespace square::planning
