// Which nodes can reach which.
#include "square/reachability.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "topology/test_data.h"

namespace square {
namespace {

using Links = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Topology topology_of(std::size_t nodes, const Links& links) {
  Topology topology;
  for (std::size_t v = 0; v < nodes; ++v) {
    REQUIRE(topology.add_node({.name = std::to_string(v)}).is_ok());
  }
  for (const auto& [from, to] : links) {
    REQUIRE(topology.add_link(NodeId(from), NodeId(to), LinkProperties{}).is_ok());
  }
  return topology;
}

std::vector<std::vector<std::uint32_t>> groups_of(const Reachability& found) {
  std::vector<std::vector<std::uint32_t>> groups;
  for (const auto& group : found.groups) {
    std::vector<std::uint32_t>& numbers = groups.emplace_back();
    for (const NodeId node : group) numbers.push_back(node.value());
  }
  return groups;
}

using Groups = std::vector<std::vector<std::uint32_t>>;
using Unreachable = std::vector<std::vector<std::size_t>>;

TEST_CASE("reachability: groups and the ways between them") {
  // 3 leads to the circle of 0 and 1, which leads to 2; 4 is alone.
  const Reachability found = reachability_of(topology_of(5, {{0, 1}, {1, 0}, {1, 2}, {3, 0}}));
  CHECK(groups_of(found) == Groups{{0, 1}, {2}, {3}, {4}});
  CHECK(found.unreachable == Unreachable{{2, 3}, {0, 2, 3}, {3}, {0, 1, 2}});
}

TEST_CASE("reachability: where every node reaches every other there is one group") {
  const Reachability found = reachability_of(topology_of(3, {{0, 1}, {1, 2}, {2, 0}}));
  CHECK(groups_of(found) == Groups{{0, 1, 2}});
  CHECK(found.unreachable == Unreachable{{}});
  CHECK(reachability_of(Topology()).groups.empty());
}

// The nodes that are not in any of these groups.
std::set<NodeId> all_but(std::size_t nodes, const Reachability& found, const std::vector<std::size_t>& lost) {
  std::set<NodeId> left;
  for (std::uint32_t v = 0; v < nodes; ++v) left.insert(NodeId(v));
  for (const std::size_t group : lost) {
    for (const NodeId node : found.groups[group]) left.erase(node);
  }
  return left;
}

TEST_CASE("reachability: equals a search from every node") {
  std::mt19937_64 random(test_seed(20261122));
  for (int round = 0; round < 300; ++round) {
    const std::size_t nodes = 1 + random() % 8;
    Links links;
    for (std::uint32_t from = 0; from < nodes; ++from) {
      for (std::uint32_t to = 0; to < nodes; ++to) {
        if (from != to && random() % (2 * nodes) < 3) links.emplace_back(from, to);
      }
    }
    const Topology topology = topology_of(nodes, links);
    const Reachability found = reachability_of(topology);
    REQUIRE(found.unreachable.has_value());
    std::size_t listed = 0;
    for (std::size_t g = 0; g < found.groups.size(); ++g) {
      listed += found.groups[g].size();
      for (const NodeId node : found.groups[g]) {
        const std::vector<bool> reached = topology.reachable_from(node);
        std::set<NodeId> expected;
        std::vector<NodeId> mutual;
        for (std::uint32_t v = 0; v < nodes; ++v) {
          if (!reached[v]) continue;
          expected.insert(NodeId(v));
          if (topology.reachable_from(NodeId(v))[node.index()]) mutual.push_back(NodeId(v));
        }
        CHECK(all_but(nodes, found, (*found.unreachable)[g]) == expected);
        CHECK(found.groups[g] == mutual);
      }
    }
    CHECK(listed == nodes);
    CHECK(std::is_sorted(found.groups.begin(), found.groups.end(), [](const auto& a, const auto& b) {
      return std::pair(b.size(), a.front()) < std::pair(a.size(), b.front());
    }));
  }
}

TEST_CASE("reachability: of large topologies is no recursion") {
  constexpr std::uint32_t kNodes = 50'000;
  Links chain;
  for (std::uint32_t v = 0; v + 1 < kNodes; ++v) chain.emplace_back(v, v + 1);
  const Reachability apart = reachability_of(topology_of(kNodes, chain));
  CHECK(apart.groups.size() == kNodes);
  CHECK_FALSE(apart.unreachable.has_value());
  chain.emplace_back(kNodes - 1, 0);
  CHECK(reachability_of(topology_of(kNodes, chain)).groups.size() == 1);
}

}  // namespace
}  // namespace square
