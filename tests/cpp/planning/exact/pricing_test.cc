// The oracles of the column generation: cheapest trees against every set of nodes, cut
// packings and the flow relaxation against their definitions and against each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "planning/exact/cut_packing.h"
#include "planning/exact/relaxation.h"
#include "planning/packing/arborescence.h"
#include "planning/packing/steiner.h"
#include "planning/packing/steiner_table.h"
#include "planning/scenarios.h"

namespace square::planning {
namespace {

using testing::seed;

constexpr double kNoLimit = 1e12;

struct PricedInstance {
  Digraph graph{0};
  std::vector<double> cost;
  int root = 0;
  std::vector<int> terminals;
};

// The costs that pricing meets: real numbers, small whole ones with ties, and mostly zeros.
std::vector<double> random_cost(std::mt19937_64& random, std::size_t arcs) {
  std::uniform_real_distribution<double> number(0.0, 1.0);
  const auto kind = random() % 4;
  std::vector<double> cost;
  for (std::size_t a = 0; a < arcs; ++a) {
    const double draw = number(random);
    if (kind == 0) cost.push_back(draw);
    if (kind == 1) cost.push_back(std::floor(draw * 4.0));
    if (kind == 2) cost.push_back(draw < 0.6 ? 0.0 : draw);
    if (kind == 3) cost.push_back(std::pow(10.0, -6.0 * draw));
  }
  return cost;
}

// Random arcs; some terminal may be out of reach.
PricedInstance priced_instance(std::mt19937_64& random, int nodes, double density, int terminals) {
  PricedInstance instance{Digraph(nodes), {}, static_cast<int>(random() % nodes), {}};
  std::uniform_real_distribution<double> number(0.0, 1.0);
  for (int u = 0; u < nodes; ++u) {
    for (int v = 0; v < nodes; ++v) {
      if (u != v && number(random) < density) instance.graph.add_arc(u, v);
    }
  }
  instance.cost = random_cost(random, instance.graph.arcs.size());
  for (int v = 0; v < nodes; ++v) {
    if (v != instance.root) instance.terminals.push_back(v);
  }
  std::shuffle(instance.terminals.begin(), instance.terminals.end(), random);
  instance.terminals.resize(terminals);
  return instance;
}

// The cheapest arborescence over each set of nodes that holds the root and the terminals.
std::optional<double> cheapest_over_sets(const PricedInstance& instance) {
  const int nodes = instance.graph.node_count();
  std::optional<double> best;
  for (unsigned set = 0; set < (1U << nodes); ++set) {
    const auto has = [&](int v) { return ((set >> v) & 1U) != 0; };
    if (!has(instance.root) || !std::all_of(instance.terminals.begin(), instance.terminals.end(), has))
      continue;
    std::vector<int> position(nodes, -1);
    int count = 0;
    for (int v = 0; v < nodes; ++v) {
      if (has(v)) position[v] = count++;
    }
    Digraph part(count);
    std::vector<double> cost;
    for (std::size_t a = 0; a < instance.cost.size(); ++a) {
      const auto [from, to] = instance.graph.arcs[a];
      if (!has(from) || !has(to)) continue;
      part.add_arc(position[from], position[to]);
      cost.push_back(instance.cost[a]);
    }
    const auto tree = minimum_arborescence(part, position[instance.root], cost);
    if (tree.has_value() && (!best.has_value() || tree_cost(*tree, cost) < *best))
      best = tree_cost(*tree, cost);
  }
  return best;
}

// In order, each node entered once, every leaf a terminal.
void check_priced_tree(const PricedInstance& instance, const std::vector<int>& tree) {
  std::set<int> reached = {instance.root};
  std::set<int> feeding;
  for (const int arc : tree) {
    CHECK(reached.contains(instance.graph.arcs[arc].from));
    CHECK(reached.insert(instance.graph.arcs[arc].to).second);
    feeding.insert(instance.graph.arcs[arc].from);
  }
  const std::set<int> terminals(instance.terminals.begin(), instance.terminals.end());
  for (const int terminal : terminals) CHECK(reached.contains(terminal));
  for (const int arc : tree) {
    const int node = instance.graph.arcs[arc].to;
    CHECK((feeding.contains(node) || terminals.contains(node)));
  }
}

// Checks every claim of a packing; returns how long the cuts are that each arc enters.
std::vector<double> check_is_packing(const PricedInstance& instance, const CutPacking& packing) {
  std::vector<double> sum(instance.cost.size(), 0.0);
  std::set<std::vector<int>> sets;
  double length = 0.0;
  for (const CutPacking::Cut& cut : packing.cuts) {
    CHECK(cut.length > 0.0);
    CHECK(std::is_sorted(cut.far_side.begin(), cut.far_side.end()));
    CHECK(sets.insert(cut.far_side).second);
    const std::set<int> far(cut.far_side.begin(), cut.far_side.end());
    CHECK(!far.contains(instance.root));
    CHECK(std::any_of(instance.terminals.begin(), instance.terminals.end(),
                      [&](int terminal) { return far.contains(terminal); }));
    length += cut.length;
    for (std::size_t a = 0; a < sum.size(); ++a) {
      const auto [from, to] = instance.graph.arcs[a];
      if (far.contains(to) && !far.contains(from)) sum[a] += cut.length;
    }
  }
  CHECK(packing.length == doctest::Approx(length).epsilon(1e-12));
  const double scale = *std::max_element(instance.cost.begin(), instance.cost.end());
  for (std::size_t a = 0; a < sum.size(); ++a) CHECK(sum[a] <= instance.cost[a] + 1e-12 * scale);
  return sum;
}

TEST_CASE("a Steiner table finds the cheapest of all trees, for one cost after another") {
  int reachable = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 6);
    PricedInstance instance =
        priced_instance(random, nodes, 0.5, 1 + static_cast<int>(random() % (nodes - 1)));
    SteinerTable table(instance.graph, instance.root, instance.terminals);
    CHECK(table.work() > 0.0);
    for (int again = 0; again < 3; ++again) {
      const std::optional<double> expected = cheapest_over_sets(instance);
      const auto tree = table.cheapest(instance.cost);
      REQUIRE(tree.has_value() == expected.has_value());
      if (!tree.has_value()) break;
      ++reachable;
      check_priced_tree(instance, *tree);
      CHECK(tree_cost(*tree, instance.cost) == doctest::Approx(*expected).epsilon(1e-12));
      instance.cost = random_cost(random, instance.cost.size());
    }
  }
  CHECK(reachable > 400);
}

TEST_CASE("a Steiner table takes repeated terminals and the root among them") {
  PricedInstance instance{Digraph(3), {1.0, 2.0}, 0, {2, 0, 2}};
  instance.graph.add_arc(0, 1);
  instance.graph.add_arc(1, 2);
  CHECK(SteinerTable(instance.graph, 0, {2, 0, 2}).cheapest(instance.cost) == std::vector<int>{0, 1});
  CHECK(SteinerTable(instance.graph, 0, {0}).cheapest(instance.cost) == std::vector<int>{});
  CHECK(SteinerTable(instance.graph, 0, {2}).cheapest({0.0, 0.0}) == std::vector<int>{0, 1});
  CHECK_FALSE(SteinerTable(instance.graph, 1, {0}).cheapest(instance.cost).has_value());
  CHECK(std::isinf(SteinerTable(instance.graph, 0, std::vector<int>(15, 1)).work()));
}

// So sparse and large that the table searches instead of knowing all distances.
TEST_CASE("a Steiner table of a long ladder parts where it is best to part") {
  constexpr int kRungs = 150;
  for (std::uint64_t round = 0; round < 20; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    PricedInstance instance{Digraph(2 * kRungs), {}, static_cast<int>(random() % (2 * kRungs)), {}};
    const auto both_ways = [&](int u, int v) {
      instance.graph.add_arc(u, v);
      instance.graph.add_arc(v, u);
    };
    for (int v = 0; v < kRungs; ++v) {
      both_ways(v, kRungs + v);
      if (v == 0) continue;
      both_ways(v - 1, v);
      both_ways(kRungs + v - 1, kRungs + v);
    }
    instance.cost = random_cost(random, instance.graph.arcs.size());
    instance.terminals = {static_cast<int>(random() % (2 * kRungs)),
                          static_cast<int>(random() % (2 * kRungs))};
    const auto tree = SteinerTable(instance.graph, instance.root, instance.terminals).cheapest(instance.cost);
    REQUIRE(tree.has_value());
    check_priced_tree(instance, *tree);
    const Distances from_root = shortest_from(instance.graph, {instance.root}, instance.cost);
    double best = kUnreachable;
    for (int v = 0; v < 2 * kRungs; ++v) {
      const Distances ways = shortest_from(instance.graph, {v}, instance.cost);
      best = std::min(best, from_root.distance[v] + ways.distance[instance.terminals[0]] +
                                ways.distance[instance.terminals[1]]);
    }
    CHECK(tree_cost(*tree, instance.cost) == doctest::Approx(best).epsilon(1e-12));
  }
}

TEST_CASE("dual ascent packs cuts under the cost of every tree, and leaves a tree") {
  int reachable = 0;
  int tight = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 9);
    const PricedInstance instance =
        priced_instance(random, nodes, 0.4, 1 + static_cast<int>(random() % (nodes - 1)));
    std::vector<double> reduced_cost;
    const CutPacking packing =
        dual_ascent(instance.graph, instance.root, instance.terminals, instance.cost, &reduced_cost);
    const auto best = exact_steiner_tree(instance.graph, instance.root, instance.terminals, instance.cost);
    REQUIRE(best.has_value() == std::isfinite(packing.length));
    if (!best.has_value()) continue;
    ++reachable;
    const double least = tree_cost(*best, instance.cost);
    CHECK(packing.length <= least * (1.0 + 1e-12));
    if (packing.length >= least * (1.0 - 1e-12)) ++tight;
    const std::vector<double> sum = check_is_packing(instance, packing);
    for (std::size_t a = 0; a < sum.size(); ++a) {
      CHECK(std::abs(instance.cost[a] - sum[a] - reduced_cost[a]) <= 1e-11);
    }
    const auto tree =
        ascent_tree(instance.graph, instance.root, instance.terminals, instance.cost, reduced_cost);
    REQUIRE(tree.has_value());
    check_priced_tree(instance, *tree);
    CHECK(tree_cost(*tree, instance.cost) >= least * (1.0 - 1e-12));
  }
  CHECK(reachable > 150);
  CHECK(tight > reachable / 2);
}

TEST_CASE("dual ascent is exact for one terminal and for all nodes") {
  int reachable = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 14);
    const bool all = round % 2 == 0;
    const PricedInstance instance = priced_instance(random, nodes, 0.5, all ? nodes - 1 : 1);
    std::vector<double> reduced_cost;
    const CutPacking packing =
        dual_ascent(instance.graph, instance.root, instance.terminals, instance.cost, &reduced_cost);
    double expected = kUnreachable;
    if (!all) {
      expected =
          shortest_from(instance.graph, {instance.root}, instance.cost).distance[instance.terminals[0]];
    } else if (const auto tree = minimum_arborescence(instance.graph, instance.root, instance.cost)) {
      expected = tree_cost(*tree, instance.cost);
    }
    REQUIRE(std::isfinite(packing.length) == std::isfinite(expected));
    if (!std::isfinite(expected)) continue;
    ++reachable;
    CHECK(packing.length == doctest::Approx(expected).epsilon(1e-12));
    const auto tree =
        ascent_tree(instance.graph, instance.root, instance.terminals, instance.cost, reduced_cost);
    REQUIRE(tree.has_value());
    CHECK(tree_cost(*tree, instance.cost) == doctest::Approx(expected).epsilon(1e-12));
  }
  CHECK(reachable > 200);
}

// That the flow and the packing cost the same proves both.
void check_is_relaxation(const PricedInstance& instance, const Relaxation& answer) {
  check_is_packing(instance, answer.packing);
  CHECK(std::abs(answer.cost - answer.packing.length) <= 1e-9 * answer.cost);
  double cost = 0.0;
  for (std::size_t a = 0; a < instance.cost.size(); ++a) cost += instance.cost[a] * answer.usage[a];
  CHECK(answer.cost == doctest::Approx(cost).epsilon(1e-12));
  REQUIRE(answer.paths.size() == instance.terminals.size());
  for (std::size_t t = 0; t < instance.terminals.size(); ++t) {
    std::vector<double> load(instance.cost.size(), 0.0);
    double rate = 0.0;
    for (const auto& [arcs, amount] : answer.paths[t]) {
      CHECK(amount > 0.0);
      rate += amount;
      int node = instance.root;
      std::set<int> seen = {node};
      for (const int arc : arcs) {
        CHECK(instance.graph.arcs[arc].from == node);
        node = instance.graph.arcs[arc].to;
        CHECK(seen.insert(node).second);
        load[arc] += amount;
      }
      CHECK(node == instance.terminals[t]);
    }
    CHECK(rate == doctest::Approx(1.0).epsilon(1e-12));
    for (std::size_t a = 0; a < load.size(); ++a) CHECK(load[a] <= answer.usage[a] + 1e-12);
  }
}

TEST_CASE("the flow relaxation costs as much as its cuts are long, and no more than a tree") {
  int reachable = 0;
  for (std::uint64_t round = 0; round < 500; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 11);
    const PricedInstance instance =
        priced_instance(random, nodes, 0.35, 1 + static_cast<int>(random() % (nodes - 1)));
    const Result<Relaxation> answer =
        steiner_relaxation(instance.graph, instance.root, instance.terminals, instance.cost, kNoLimit);
    const auto tree = exact_steiner_tree(instance.graph, instance.root, instance.terminals, instance.cost);
    if (!tree.has_value()) {
      CHECK(answer.status().code() == StatusCode::kFailedPrecondition);
      continue;
    }
    ++reachable;
    REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
    check_is_relaxation(instance, *answer);
    CHECK(answer->cost <= tree_cost(*tree, instance.cost) * (1.0 + 1e-9));
  }
  CHECK(reachable > 150);
}

// Each of the middle nodes serves all but two of the terminals, so two of them are needed
// by a tree, and less than two by flows.
PricedInstance cover(int middle, std::mt19937_64& random) {
  PricedInstance instance{Digraph(1 + 2 * middle), {}, 0, {}};
  std::uniform_real_distribution<double> number(0.9, 1.1);
  for (int m = 0; m < middle; ++m) {
    instance.graph.add_arc(0, 1 + m);
    instance.cost.push_back(number(random));
    for (int j = 0; j < middle; ++j) {
      if (j == m || j == (m + 1) % middle) continue;
      instance.graph.add_arc(1 + m, 1 + middle + j);
      instance.cost.push_back(0.01 * number(random));
    }
    instance.terminals.push_back(1 + middle + m);
  }
  return instance;
}

TEST_CASE("the flow relaxation is below every tree where flows can share the middle") {
  for (std::uint64_t round = 0; round < 10; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const PricedInstance instance = cover(5 + static_cast<int>(round), random);
    const Result<Relaxation> answer =
        steiner_relaxation(instance.graph, 0, instance.terminals, instance.cost, kNoLimit);
    REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
    check_is_relaxation(instance, *answer);
    const auto tree = exact_steiner_tree(instance.graph, 0, instance.terminals, instance.cost);
    REQUIRE(tree.has_value());
    CHECK(answer->cost < 0.95 * tree_cost(*tree, instance.cost));
  }
}

TEST_CASE("the butterfly: the relaxation costs 3/2, the cheapest tree 2") {
  // The source, two nodes above, the bottleneck 3 -> 4, and the terminals 5 and 6. Costs are
  // the duals of its best packing of trees.
  PricedInstance instance{Digraph(7), {}, 0, {5, 6}};
  const auto arc = [&](int from, int to, double cost) {
    instance.graph.add_arc(from, to);
    instance.cost.push_back(cost);
  };
  arc(0, 1, 1.0);
  arc(0, 2, 1.0);
  arc(3, 4, 1.0);
  arc(1, 5, 0.0);
  arc(2, 6, 0.0);
  arc(1, 3, 0.0);
  arc(2, 3, 0.0);
  arc(4, 5, 0.0);
  arc(4, 6, 0.0);
  const auto tree = exact_steiner_tree(instance.graph, 0, instance.terminals, instance.cost);
  REQUIRE(tree.has_value());
  CHECK(tree_cost(*tree, instance.cost) == 2.0);
  const Result<Relaxation> answer =
      steiner_relaxation(instance.graph, 0, instance.terminals, instance.cost, kNoLimit);
  REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
  check_is_relaxation(instance, *answer);
  CHECK(answer->cost == doctest::Approx(1.5).epsilon(1e-9));
  CHECK(steiner_relaxation(instance.graph, 0, instance.terminals, instance.cost, 1.0).status().code() ==
        StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace square::planning
