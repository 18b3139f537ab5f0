#include "square/paths.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "topology/test_data.h"

using namespace square;

namespace {

std::vector<std::string> names_of(const Topology& topology, const Path& path) {
  std::vector<std::string> names;
  for (const NodeId node : path.nodes) names.push_back(topology.node(node).name);
  return names;
}

void extend(const Topology& topology, NodeId target, Path& path, std::vector<Path>& found) {
  if (path.nodes.back() == target) {
    found.push_back(path);
    return;
  }
  for (const LinkId link : topology.out_links(path.nodes.back())) {
    const NodeId next = topology.link(link).to;
    if (std::ranges::find(path.nodes, next) != path.nodes.end()) continue;
    const double width = path.width_bps;
    path.nodes.push_back(next);
    path.links.push_back(link);
    path.width_bps = std::min(width, topology.link(link).properties.capacity_bps);
    extend(topology, target, path, found);
    path.nodes.pop_back();
    path.links.pop_back();
    path.width_bps = width;
  }
}

// Every simple path by trying everything, sorted by the total order of paths.h.
std::vector<Path> brute_force(const Topology& topology, NodeId source, NodeId target, bool widest) {
  Path path{{source}, {}, kUnlimited};
  std::vector<Path> found;
  extend(topology, target, path, found);
  std::ranges::sort(found, {}, [&](const Path& p) {
    const double hops = static_cast<double>(p.links.size());
    return std::tuple(widest ? -p.width_bps : hops, widest ? hops : -p.width_bps, names_of(topology, p));
  });
  return found;
}

// Names in an order that is not that of the ids; few capacities, so that widths tie often.
Topology random_topology(std::mt19937_64& random, std::size_t node_count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < node_count; ++i) names.push_back("n" + std::to_string(i * 7 % 11));
  std::ranges::shuffle(names, random);
  Topology topology;
  for (const std::string& name : names) REQUIRE(topology.add_node({.name = name}).is_ok());
  const std::uint64_t percent = 20 + random() % 80;
  for (const std::string& from : names) {
    for (const std::string& to : names) {
      if (from == to || random() % 100 >= percent) continue;
      const double capacity = random() % 12 == 0 ? kUnlimited : 1e6 * static_cast<double>(1 + random() % 4);
      REQUIRE(topology.add_link(from, to, {.capacity_bps = capacity}).is_ok());
    }
  }
  return topology;
}

Topology diamond() {
  Topology topology;
  for (const char* name : {"s", "b", "a", "t", "x"}) REQUIRE(topology.add_node({.name = name}).is_ok());
  const auto link = [&](const char* from, const char* to, double mbps) {
    REQUIRE(topology.add_link(from, to, {.capacity_bps = mbps * 1e6}).is_ok());
  };
  link("s", "a", 5);
  link("s", "b", 5);
  link("a", "t", 5);
  link("b", "t", 5);
  link("s", "t", 1);
  link("a", "b", 9);
  return topology;
}

}  // namespace

TEST_CASE("paths of a diamond in both orders") {
  const Topology topology = diamond();
  const NodeId s = *topology.find_node("s");
  const NodeId t = *topology.find_node("t");
  using Names = std::vector<std::vector<std::string>>;
  const auto names = [&](const std::vector<Path>& paths) {
    Names result;
    for (const Path& path : paths) result.push_back(names_of(topology, path));
    return result;
  };
  CHECK(names(k_shortest_paths(topology, s, t, 9)) ==
        Names{{"s", "t"}, {"s", "a", "t"}, {"s", "b", "t"}, {"s", "a", "b", "t"}});
  CHECK(names(k_widest_paths(topology, s, t, 9)) ==
        Names{{"s", "a", "t"}, {"s", "b", "t"}, {"s", "a", "b", "t"}, {"s", "t"}});
  CHECK(names(k_shortest_paths(topology, s, t, 2)) == Names{{"s", "t"}, {"s", "a", "t"}});
  CHECK(k_shortest_paths(topology, s, t, 1).front().width_bps == 1e6);
  CHECK(k_shortest_paths(topology, s, s, 3).empty());
  CHECK(k_shortest_paths(topology, s, t, 0).empty());
  CHECK(k_widest_paths(topology, t, s, 3).empty());
  CHECK(k_shortest_paths(topology, s, *topology.find_node("x"), 3).empty());
  CHECK(all_simple_paths(topology, s, t, 4)->size() == 4);
  const auto too_many = all_simple_paths(topology, s, t, 3);
  CHECK(too_many.status().code() == StatusCode::kResourceExhausted);
  CHECK(too_many.status().message().find("\"s\" to \"t\"") != std::string::npos);
  CHECK(all_simple_paths(topology, s, t, std::numeric_limits<std::size_t>::max())->size() == 4);
  CHECK(all_simple_paths(topology, t, s, 0)->empty());
}

TEST_CASE("k shortest and k widest paths equal brute force on random graphs") {
  const std::uint64_t seed = test_seed(20260711);
  std::mt19937_64 random(seed);
  std::size_t compared = 0;
  for (int round = 0; round < 600; ++round) {
    const std::size_t node_count = 2 + random() % 6;
    const Topology topology = random_topology(random, node_count);
    const NodeId source(0);
    const NodeId target(1);
    for (const bool widest : {false, true}) {
      CAPTURE(seed);
      CAPTURE(round);
      CAPTURE(widest);
      std::vector<Path> expected = brute_force(topology, source, target, widest);
      const auto first = [&](std::size_t k) {
        return widest ? k_widest_paths(topology, source, target, k)
                      : k_shortest_paths(topology, source, target, k);
      };
      REQUIRE(first(expected.size() + 3) == expected);  // all of them, in order, with links and widths
      compared += expected.size();
      if (!widest) REQUIRE(*all_simple_paths(topology, source, target, expected.size()) == expected);
      if (expected.size() < 2) continue;
      const std::size_t k = 1 + random() % (expected.size() - 1);
      expected.resize(k);
      REQUIRE(first(k) == expected);
    }
  }
  MESSAGE("compared " << compared << " paths");
  CHECK(compared > 10'000);
}

TEST_CASE("the first paths do not depend on the order in which links came") {
  const std::uint64_t seed = test_seed(99);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const Topology topology = random_topology(random, 7);
    std::vector<std::uint32_t> order(topology.link_count());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::shuffle(order, random);
    Topology shuffled;
    for (std::uint32_t i = 7; i-- > 0;) REQUIRE(shuffled.add_node(topology.node(NodeId(i))).is_ok());
    for (const std::uint32_t i : order) {
      const TopologyLink& link = topology.link(LinkId(i));
      REQUIRE(shuffled.add_link(topology.node(link.from).name, topology.node(link.to).name, link.properties)
                  .is_ok());
    }
    const auto a = k_shortest_paths(topology, NodeId(0), NodeId(6), 5);
    const auto b = k_shortest_paths(shuffled, NodeId(6), NodeId(0), 5);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(names_of(topology, a[i]) == names_of(shuffled, b[i]));
  }
}

TEST_CASE("long and dense graphs are no trouble") {
  // A ladder of 2^300 simple paths: only the first ones may be looked at.
  Topology ladder;
  for (int i = 0; i <= 300; ++i) {
    for (const char* side : {"l", "m", "r"})
      REQUIRE(ladder.add_node({.name = side + std::to_string(i)}).is_ok());
  }
  const auto link = [&](const std::string& from, const std::string& to, double mbps) {
    REQUIRE(ladder.add_link(from, to, {.capacity_bps = mbps * 1e6}).is_ok());
  };
  for (int i = 0; i < 300; ++i) {
    const std::string here = std::to_string(i);
    link("m" + here, "l" + here, i % 3 + 1);
    link("m" + here, "r" + here, 2);
    link("l" + here, "m" + std::to_string(i + 1), 5);
    link("r" + here, "m" + std::to_string(i + 1), 5);
  }
  const NodeId from = *ladder.find_node("m0");
  const NodeId to = *ladder.find_node("m300");
  const auto paths = k_shortest_paths(ladder, from, to, 8);
  REQUIRE(paths.size() == 8);
  for (const Path& path : paths) {
    CHECK(path.links.size() == 600);
    CHECK(path.width_bps == 2e6);
  }
  CHECK(k_widest_paths(ladder, from, to, 8) == paths);
  CHECK(all_simple_paths(ladder, from, to, 20).status().code() == StatusCode::kResourceExhausted);
}
