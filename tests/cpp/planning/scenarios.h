// Scenarios made in code, for the tests of this folder.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "square/planner.h"
#include "square/scenario.h"
#include "square/topology.h"

namespace square::testing {

inline std::uint64_t seed() {
  const char* text = std::getenv("SQUARE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261121;
}

inline NodeId node(std::size_t v) { return NodeId(static_cast<std::uint32_t>(v)); }

inline constexpr double kMbps = 1e6;

// A full mesh of n nodes "n00", "n01", ... with links N(10, 1) Mbit/s.
inline Topology mesh(std::size_t n, std::uint64_t random_seed) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < n; ++v) names.push_back(fmt::format("n{:02}", v));
  Topology topology = std::move(full_mesh(names, LinkProperties{})).value();
  REQUIRE(draw_capacities(topology, 10 * kMbps, 1 * kMbps, random_seed).is_ok());
  return topology;
}

inline Topology named_nodes(const std::vector<std::string>& names) {
  Topology topology;
  for (const std::string& name : names) REQUIRE(topology.add_node({name}).is_ok());
  return topology;
}

inline void link(Topology& topology, std::string_view from, std::string_view to, double mbps) {
  REQUIRE(topology.add_link(from, to, LinkProperties{mbps * kMbps}).is_ok());
}

inline std::vector<NodeId> everyone(const Topology& topology) {
  std::vector<NodeId> members;
  for (std::size_t v = 0; v < topology.node_count(); ++v) members.push_back(node(v));
  return members;
}

// One tenant "t" and no collective yet, under the policy of the paper.
inline Scenario scenario_on(Topology topology) {
  Scenario scenario;
  scenario.name = "test";
  scenario.policy.name = "square";
  scenario.policy.fairness = Fairness::kCollective;
  scenario.topology = std::move(topology);
  scenario.tenants = {{"t", 1.0}};
  return scenario;
}

inline CollectiveSpec& add_collective(Scenario& scenario, CollectiveOp op, std::vector<NodeId> members,
                                      std::uint64_t bytes = 12'500'000) {
  CollectiveSpec spec;
  spec.id = CollectiveId(static_cast<std::uint32_t>(scenario.collectives.size()));
  spec.tenant = "t";
  spec.op = op;
  spec.algorithm = AllReduceAlgorithm::kRing;
  spec.root = members.front();
  spec.members = std::move(members);
  spec.size_bytes = bytes;
  scenario.collectives.push_back(std::move(spec));
  return scenario.collectives.back();
}

// A broadcast from node v to all.
inline CollectiveSpec& add_broadcast(Scenario& scenario, std::size_t v) {
  CollectiveSpec& spec = add_collective(scenario, CollectiveOp::kBroadcast, everyone(scenario.topology));
  spec.root = node(v);
  return spec;
}

inline PlanResult planned(const Scenario& scenario) {
  Result<PlanResult> result = make_plan(scenario);
  INFO(result.status().to_string());
  REQUIRE(result.is_ok());
  return std::move(result).value();
}

// Two destinations at the bottom, one bottleneck in the middle, every link 1 Mbit/s.
inline Topology butterfly() {
  Topology topology = named_nodes({"s", "a", "b", "c", "d", "x", "y"});
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"s", "a"},
                                                                                 {"s", "b"},
                                                                                 {"a", "c"},
                                                                                 {"b", "c"},
                                                                                 {"c", "d"},
                                                                                 {"a", "x"},
                                                                                 {"b", "y"},
                                                                                 {"d", "x"},
                                                                                 {"d", "y"}}) {
    link(topology, from, to, 1);
  }
  return topology;
}

}  // namespace square::testing
