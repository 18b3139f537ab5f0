// Trees: cheapest ones against every tree there is, packings against the LP over all trees.
#include "planning/packing/tree_packing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "lp/solver.h"
#include "planning/packing/arborescence.h"
#include "planning/packing/steiner.h"
#include "planning/scenarios.h"

namespace square::planning {
namespace {

using testing::seed;

struct PackedInstance {
  Digraph graph{0};
  std::vector<double> cost;
  std::vector<int> terminals;
};

// Random arcs and costs (some of them zero); may be disconnected.
PackedInstance random_instance(std::mt19937_64& random, int nodes, double density, int terminals) {
  PackedInstance instance{Digraph(nodes), {}, {}};
  std::uniform_real_distribution<double> number(0.0, 1.0);
  for (int u = 0; u < nodes; ++u) {
    for (int v = 0; v < nodes; ++v) {
      if (u == v || number(random) > density) continue;
      instance.graph.add_arc(u, v);
      instance.cost.push_back(number(random) < 0.2 ? 0.0 : number(random));
    }
  }
  std::vector<int> others(nodes - 1);
  std::iota(others.begin(), others.end(), 1);
  std::shuffle(others.begin(), others.end(), random);
  instance.terminals.assign(others.begin(), others.begin() + terminals);
  return instance;
}

// Every arborescence from node 0 over exactly the nodes of a set that holds the terminals
// and whose leaves are terminals, by choosing an arc into each node.
void each_tree(const PackedInstance& instance, const std::function<void(const std::vector<int>&)>& use) {
  const int nodes = instance.graph.node_count();
  for (unsigned set = 1; set < (1U << nodes); set += 2) {
    const auto has = [&](int v) { return ((set >> v) & 1U) != 0; };
    if (!std::all_of(instance.terminals.begin(), instance.terminals.end(), has)) continue;
    std::vector<int> chosen;
    const std::function<void(int)> choose = [&](int v) {
      while (v < nodes && (v == 0 || !has(v))) ++v;
      if (v < nodes) {
        for (const int arc : instance.graph.in[v]) {
          if (!has(instance.graph.arcs[arc].from)) continue;
          chosen.push_back(arc);
          choose(v + 1);
          chosen.pop_back();
        }
        return;
      }
      std::set<int> reached = {0};
      for (std::size_t round = 0; round < chosen.size(); ++round) {
        for (const int arc : chosen) {
          if (reached.contains(instance.graph.arcs[arc].from)) reached.insert(instance.graph.arcs[arc].to);
        }
      }
      if (reached.size() == chosen.size() + 1) use(chosen);
    };
    choose(1);
  }
}

std::optional<double> cheapest(const PackedInstance& instance) {
  std::optional<double> best;
  each_tree(instance, [&](const std::vector<int>& tree) {
    const double cost = tree_cost(tree, instance.cost);
    if (!best.has_value() || cost < *best) best = cost;
  });
  return best;
}

void check_is_tree(const PackedInstance& instance, const std::vector<int>& tree) {
  std::set<int> reached = {0};
  for (const int arc : tree) {
    CHECK(reached.contains(instance.graph.arcs[arc].from));
    CHECK(reached.insert(instance.graph.arcs[arc].to).second);
  }
  for (const int terminal : instance.terminals) CHECK(reached.contains(terminal));
}

TEST_CASE("minimum arborescences are the cheapest of all") {
  for (std::uint64_t round = 0; round < 300; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 2 + static_cast<int>(random() % 5);
    const PackedInstance instance = random_instance(random, nodes, 0.6, nodes - 1);
    const std::optional<double> expected = cheapest(instance);
    const auto tree = minimum_arborescence(instance.graph, 0, instance.cost);
    REQUIRE(tree.has_value() == expected.has_value());
    if (!tree.has_value()) continue;
    CHECK(tree_cost(*tree, instance.cost) == doctest::Approx(*expected));
    check_is_tree(instance, prune_to_tree(instance.graph, 0, instance.terminals, *tree, instance.cost));
  }
}

TEST_CASE("exact Steiner trees are the cheapest of all, the heuristic ones are trees") {
  for (std::uint64_t round = 0; round < 300; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 3 + static_cast<int>(random() % 4);
    const int terminals = 1 + static_cast<int>(random() % (nodes - 1));
    const PackedInstance instance = random_instance(random, nodes, 0.5, terminals);
    const std::optional<double> expected = cheapest(instance);
    const auto exact = exact_steiner_tree(instance.graph, 0, instance.terminals, instance.cost);
    const auto heuristic = heuristic_steiner_tree(instance.graph, 0, instance.terminals, instance.cost);
    REQUIRE(exact.has_value() == expected.has_value());
    REQUIRE(heuristic.has_value() == expected.has_value());
    if (!exact.has_value()) continue;
    CHECK(tree_cost(*exact, instance.cost) == doctest::Approx(*expected));
    CHECK(tree_cost(*heuristic, instance.cost) >= *expected - 1e-12);
    check_is_tree(instance, *exact);
    check_is_tree(instance, *heuristic);
  }
}

double best_packing(const PackedInstance& instance, const std::vector<double>& capacity) {
  LinearProgram program;
  for (const double limit : capacity) program.add_row({-kLpInfinity, limit});
  const int all = program.add_row({-kLpInfinity, 1.0});
  each_tree(instance, [&](const std::vector<int>& tree) {
    const int column = program.add_column({0, kLpInfinity, 1});
    for (const int arc : tree) program.add_entry(arc, column, 1);
    program.add_entry(all, column, 1);
  });
  const Result<Solution> solution = solve(program);
  REQUIRE(solution.is_ok());
  return solution->objective;
}

TEST_CASE("packed trees reach the best of all packings, but for thin streams") {
  int packed_something = 0;
  for (std::uint64_t round = 0; round < 200; ++round) {
    CAPTURE(seed() + round);
    std::mt19937_64 random(seed() + round);
    const int nodes = 3 + static_cast<int>(random() % 3);
    const int terminals = 1 + static_cast<int>(random() % (nodes - 1));
    const PackedInstance instance = random_instance(random, nodes, 0.7, terminals);
    PackingRequest request{instance.graph, 0, instance.terminals, {}, {}};
    std::uniform_real_distribution<double> number(0.05, 0.6);
    for (std::size_t a = 0; a < instance.cost.size(); ++a) request.capacity.push_back(number(random));
    if (!exact_steiner_tree(instance.graph, 0, instance.terminals, instance.cost).has_value()) continue;
    ++packed_something;
    const Result<std::vector<PackedTree>> packed = pack_trees(request);
    REQUIRE(packed.is_ok());
    double sum = 0;
    std::vector<double> load(instance.cost.size(), 0.0);
    for (const PackedTree& tree : *packed) {
      CHECK(tree.rate > 0);
      check_is_tree(instance, tree.arcs);
      sum += tree.rate;
      for (const int arc : tree.arcs) load[arc] += tree.rate;
    }
    for (std::size_t a = 0; a < load.size(); ++a) CHECK(load[a] <= request.capacity[a] * (1 + 1e-9));
    const double best = best_packing(instance, request.capacity);
    CHECK(sum <= best * (1 + 1e-6));
    CHECK(sum >= best * (1 - kThinLoss - 1e-4));
  }
  CHECK(packed_something > 100);
}

TEST_CASE("thin trees go where others can take their rate, and stay where they are needed") {
  // Two ways to the one terminal: a wide one, and one that is under 1%.
  PackingRequest request{Digraph(3), 0, {2}, {}, {}};
  request.graph.add_arc(0, 2);
  request.graph.add_arc(0, 1);
  request.graph.add_arc(1, 2);
  const auto rates = [&](double wide, double narrow) {
    request.capacity = {wide, narrow, narrow};
    const Result<std::vector<PackedTree>> packed = pack_trees(request);
    REQUIRE(packed.is_ok());
    std::vector<double> result;
    for (const PackedTree& tree : *packed) result.push_back(tree.rate);
    return result;
  };
  CHECK(rates(0.999, 0.001).size() == 1);  // 0.1% is lost
  const std::vector<double> both = rates(0.99, 0.009);
  REQUIRE(both.size() == 2);  // 0.9% would be lost
  CHECK(both[0] + both[1] == doctest::Approx(0.999));
}

TEST_CASE("shallow trees are preferred where it costs nothing") {
  // The direct arcs suffice; the chain could carry as much.
  PackingRequest request{Digraph(4), 0, {1, 2, 3}, {}, {}};
  for (int v = 1; v < 4; ++v) request.graph.add_arc(0, v);
  request.graph.add_arc(1, 2);
  request.graph.add_arc(2, 3);
  request.capacity.assign(5, 1.0);
  const Result<std::vector<PackedTree>> packed = pack_trees(request);
  REQUIRE(packed.is_ok());
  REQUIRE(packed->size() == 1);
  CHECK(packed->front().arcs == std::vector<int>{0, 1, 2});
}

}  // namespace
}  // namespace square::planning
