// Codes with more ways than blocks: the ways share nothing, there are as many as the network has, and
// whichever may be lost, every destination decodes.
#include "planning/codes/redundant_code.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "coding/codes/row_space.h"
#include "planning/codes/independent_ways.h"
#include "planning/scenarios.h"

namespace square::planning {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

Digraph random_graph(std::mt19937_64& chance, int nodes, unsigned of_eight) {
  Digraph graph(nodes);
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from != to && chance() % 8 < of_eight) graph.add_arc(from, to);
    }
  }
  return graph;
}

Digraph mesh(int nodes) {
  std::mt19937_64 chance;
  return random_graph(chance, nodes, 8);
}

bool reaches(const Digraph& graph, int from, int to, const std::set<int>& without) {
  std::set<int> seen = {from};
  std::vector<int> next = {from};
  while (!next.empty()) {
    const int here = next.back();
    next.pop_back();
    for (const int arc : graph.out[at(here)]) {
      const int head = graph.arcs[at(arc)].to;
      if (here == from && head == to) continue;  // the arc between the two is counted apart
      if (!without.contains(head) && seen.insert(head).second) next.push_back(head);
    }
  }
  return seen.contains(to);
}

// By Menger's theorem: the arc between them, if there is one, and the fewest nodes that cut all else.
int menger(const Digraph& graph, int root, int terminal) {
  const auto is_direct = [&](int arc) { return graph.arcs[at(arc)].to == terminal; };
  const int direct = std::ranges::any_of(graph.out[at(root)], is_direct) ? 1 : 0;
  std::size_t fewest = at(graph.node_count());
  for (unsigned chosen = 0; chosen < 1U << static_cast<unsigned>(graph.node_count()); ++chosen) {
    std::set<int> cut;
    for (int node = 0; node < graph.node_count(); ++node) {
      if ((chosen >> static_cast<unsigned>(node) & 1U) != 0) cut.insert(node);
    }
    if (cut.contains(root) || cut.contains(terminal) || cut.size() >= fewest) continue;
    if (!reaches(graph, root, terminal, cut)) fewest = cut.size();
  }
  return direct + static_cast<int>(fewest);
}

double cost_of(const std::vector<std::vector<int>>& ways, const std::vector<double>& cost) {
  double sum = 0;
  for (const std::vector<int>& way : ways) {
    for (const int arc : way) sum += cost[at(arc)];
  }
  return sum;
}

void check_independent(const Digraph& graph, int root, int terminal,
                       const std::vector<std::vector<int>>& ways) {
  std::set<int> used;
  for (const std::vector<int>& way : ways) {
    int here = root;
    for (const int arc : way) {
      REQUIRE(graph.arcs[at(arc)].from == here);
      here = graph.arcs[at(arc)].to;
      if (here != terminal) CHECK(used.insert(here).second);
    }
    CHECK(here == terminal);
    CHECK(!used.contains(root));
  }
  std::set<std::vector<int>> different(ways.begin(), ways.end());
  CHECK(different.size() == ways.size());
}

// All simple ways from here on.
void each_way(const Digraph& graph, int here, int terminal, std::set<int>& seen, std::vector<int>& way,
              std::vector<std::vector<int>>& all) {
  if (here == terminal) return all.push_back(way);
  for (const int arc : graph.out[at(here)]) {
    const int head = graph.arcs[at(arc)].to;
    if (!seen.insert(head).second) continue;
    way.push_back(arc);
    each_way(graph, head, terminal, seen, way, all);
    way.pop_back();
    seen.erase(head);
  }
}

double cheapest_pair(const Digraph& graph, int root, int terminal, const std::vector<double>& cost) {
  std::vector<std::vector<int>> all;
  std::set<int> seen = {root};
  std::vector<int> way;
  each_way(graph, root, terminal, seen, way, all);
  double least = kUnreachable;
  for (std::size_t a = 0; a < all.size(); ++a) {
    std::set<int> inner;
    for (const int arc : all[a]) inner.insert(graph.arcs[at(arc)].to);
    for (std::size_t b = 0; b < a; ++b) {
      const bool is_apart = std::ranges::all_of(all[b], [&](int arc) {
        const int head = graph.arcs[at(arc)].to;
        return head == terminal || !inner.contains(head);
      });
      if (is_apart) least = std::min(least, cost_of({all[a], all[b]}, cost));
    }
  }
  return least;
}

// Of each terminal: as many ways as said, independent, and any K of what comes decode.
void check_design(const CodeDesign& design, const RedundantProblem& problem) {
  REQUIRE(design.sinks.size() == problem.terminals.size());
  for (std::size_t j = 0; j < design.sinks.size(); ++j) {
    const std::vector<int>& flows = design.sinks[j].flows;
    REQUIRE(flows.size() == at(design.blocks + problem.redundancy));
    std::vector<std::vector<int>> ways;
    for (const int flow : flows) {
      std::vector<int>& way = ways.emplace_back();
      int here = problem.terminals[j];
      while (here != problem.root) {
        const auto leads = [&](int arc) { return problem.graph->arcs[at(arc)].to == here; };
        const auto& arcs = design.flows[at(flow)].arcs;
        REQUIRE(std::ranges::count_if(arcs, leads) == 1);
        way.insert(way.begin(), *std::ranges::find_if(arcs, leads));
        here = problem.graph->arcs[at(way.front())].from;
      }
    }
    check_independent(*problem.graph, problem.root, problem.terminals[j], ways);
    std::vector<bool> kept(flows.size(), true);
    std::fill(kept.begin(), kept.begin() + problem.redundancy, false);
    do {
      RowSpace space(field_of(design.field));
      for (std::size_t k = 0; k < flows.size(); ++k) {
        if (kept[k]) space.add(design.flows[at(flows[k])].row);
      }
      CHECK(space.rank() == at(design.blocks));
    } while (std::next_permutation(kept.begin(), kept.end()));
  }
  for (const CodeDesign::Flow& flow : design.flows) {
    std::set<int> reached = {problem.root};
    for (const int arc : flow.arcs) {
      CHECK(reached.contains(problem.graph->arcs[at(arc)].from));
      CHECK(reached.insert(problem.graph->arcs[at(arc)].to).second);
    }
  }
}

TEST_CASE("independent ways are as many as there are, and the cheapest") {
  const std::uint64_t first = testing::seed();
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 chance(seed);
    const Digraph graph =
        random_graph(chance, 3 + static_cast<int>(chance() % 5), 2 + static_cast<unsigned>(chance() % 6));
    std::vector<double> cost;
    for (std::size_t a = 0; a < graph.arcs.size(); ++a) cost.push_back(static_cast<double>(chance() % 100));
    const int most = menger(graph, 0, 1);
    const auto all = independent_ways(graph, 0, 1, 100, cost);
    CHECK(static_cast<int>(all.size()) == most);
    check_independent(graph, 0, 1, all);
    CHECK(independent_way_count({&graph, 0, {1}, 1}) == most);
    if (most < 2) continue;
    const auto two = independent_ways(graph, 0, 1, 2, cost);
    check_independent(graph, 0, 1, two);
    CHECK(cost_of(two, cost) == doctest::Approx(cheapest_pair(graph, 0, 1, cost)));
  }
}

TEST_CASE("whichever ways are lost, every terminal of a random network decodes") {
  const std::uint64_t first = testing::seed();
  int designed = 0;
  for (std::uint64_t seed = first; seed < first + 300; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 chance(seed);
    const int nodes = 4 + static_cast<int>(chance() % 6);
    const Digraph graph = random_graph(chance, nodes, 4 + static_cast<unsigned>(chance() % 5));
    RedundantProblem problem{&graph, 0, {}, 1 + static_cast<int>(chance() % 3)};
    for (int node = 1; node < nodes; ++node) {
      if (problem.terminals.empty() || chance() % 2 == 0) problem.terminals.push_back(node);
    }
    std::vector<double> cost;
    for (std::size_t a = 0; a < graph.arcs.size(); ++a) cost.push_back(static_cast<double>(chance() % 4));
    const int most = independent_way_count(problem);
    for (int ways = problem.redundancy + 1; ways <= most; ++ways) {
      const auto design = redundant_code(problem, ways, cost);
      REQUIRE(design.has_value());
      check_design(*design, problem);
      ++designed;
    }
    CHECK_FALSE(redundant_code(problem, most + 1, cost).has_value());
    CHECK(cheapest_redundant_code(problem, most, cost).has_value() == (most > problem.redundancy));
  }
  CHECK(designed > 300);
}

TEST_CASE("in a mesh each other node takes one part on, once") {
  const Digraph graph = mesh(6);
  const RedundantProblem problem{&graph, 0, {1, 2}, 1};
  const std::vector<double> cost(graph.arcs.size(), 1.0);
  REQUIRE(independent_way_count(problem) == 5);
  const auto design = redundant_code(problem, 5, cost);
  REQUIRE(design.has_value());
  check_design(*design, problem);
  CHECK(design->blocks == 4);
  CHECK(design->flows.size() == 5);
  std::size_t arcs = 0;
  for (const CodeDesign::Flow& flow : design->flows) arcs += flow.arcs.size();
  CHECK(arcs == 3 * 3 + 2 * 2);
}

TEST_CASE("around a ring there are two ways, and what goes around twice is the same") {
  Digraph graph(6);
  for (int node = 0; node < 6; ++node) {
    graph.add_arc(node, (node + 1) % 6);
    graph.add_arc((node + 1) % 6, node);
  }
  const RedundantProblem problem{&graph, 0, {1, 2, 3, 4, 5}, 1};
  const auto design = redundant_code(problem, 2, std::vector<double>(graph.arcs.size(), 1.0));
  REQUIRE(design.has_value());
  check_design(*design, problem);
  CHECK(design->blocks == 1);
  CHECK(design->flows.size() == 2);
}

}  // namespace
}  // namespace square::planning
