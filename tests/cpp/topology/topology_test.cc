#include "square/topology.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "topology/test_data.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Topology nodes(std::initializer_list<const char*> names) {
  Topology topology;
  for (const char* name : names) REQUIRE(topology.add_node({.name = name}).is_ok());
  return topology;
}

LinkProperties capacity(double bps) { return {.capacity_bps = bps, .latency = 0ns, .price_usd_per_gb = 0}; }

}  // namespace

TEST_CASE("nodes and links are found by name, by id and from both ends") {
  Topology topology = nodes({"a", "b", "c"});
  const auto ab = topology.add_link("a", "b", {5e6, 3ms, 0.1});
  const auto cb = topology.add_link("c", "b", capacity(7e6));
  REQUIRE(ab.is_ok());
  REQUIRE(cb.is_ok());
  CHECK(topology.node_count() == 3);
  CHECK(topology.link_count() == 2);
  CHECK(topology.find_node("b") == NodeId(1));
  CHECK_FALSE(topology.find_node("d").has_value());
  CHECK(topology.find_link(NodeId(2), NodeId(1)) == *cb);
  CHECK_FALSE(topology.find_link(NodeId(1), NodeId(2)).has_value());  // one direction only
  CHECK(topology.link(*ab).properties.latency == 3ms);
  CHECK(std::ranges::equal(topology.out_links(NodeId(0)), std::vector{*ab}));
  CHECK(std::ranges::equal(topology.in_links(NodeId(1)), std::vector{*ab, *cb}));
  CHECK(topology.out_links(NodeId(1)).empty());
}

TEST_CASE("a second link between two nodes adds up") {
  Topology topology = nodes({"a", "b"});
  const auto first = topology.add_link("a", "b", {30e6, 2ms, 0.1});
  const auto second = topology.add_link("a", "b", {10e6, 9ms, 0.5});
  REQUIRE(second.is_ok());
  CHECK(*first == *second);
  CHECK(topology.link_count() == 1);
  const LinkProperties& joint = topology.link(*first).properties;
  CHECK(joint.capacity_bps == 40e6);
  CHECK(joint.latency == 9ms);
  CHECK(joint.price_usd_per_gb == doctest::Approx(0.2));
  REQUIRE(topology.add_link("a", "b", {kUnlimited, 0ms, 0.7}).is_ok());
  CHECK(topology.link(*first).properties.capacity_bps == kUnlimited);
  CHECK(topology.link(*first).properties.price_usd_per_gb == 0.7);
  REQUIRE(topology.add_link("a", "b", {kUnlimited, 0ms, 0.1}).is_ok());
  CHECK(topology.link(*first).properties.price_usd_per_gb == doctest::Approx(0.4));
}

TEST_CASE("standard deviations of parallel links add as variances") {
  Topology topology = nodes({"a", "b"});
  const LinkId link = *topology.add_link("a", "b", {.capacity_bps = 30e6, .capacity_stddev_bps = 3e6});
  REQUIRE(topology.add_link("a", "b", {.capacity_bps = 10e6, .capacity_stddev_bps = 4e6}).is_ok());
  CHECK(topology.link(link).properties.capacity_stddev_bps == 5e6);
  REQUIRE(topology.add_link("a", "b", {.capacity_bps = 10e6}).is_ok());
  CHECK(topology.link(link).properties.capacity_stddev_bps == 5e6);
  for (const double bad : {-1.0, kNan, kUnlimited}) {
    const auto refused = topology.add_link("b", "a", {.capacity_bps = 1e6, .capacity_stddev_bps = bad});
    CHECK(refused.status().code() == StatusCode::kInvalidArgument);
    CHECK(refused.status().message().find("standard deviation") != std::string::npos);
  }
  CHECK(topology.link_count() == 1);
}

TEST_CASE("capacities that add up to more than a number holds are refused") {
  Topology topology = nodes({"a", "b"});
  const LinkId link = *topology.add_link("a", "b", {.capacity_bps = 1.5e308, .capacity_stddev_bps = 1.5e308});
  const auto more = topology.add_link("a", "b", {.capacity_bps = 1.5e308});
  CHECK(more.status().code() == StatusCode::kInvalidArgument);
  CHECK(more.status().message().find("link \"a\" -> \"b\": the capacities") != std::string::npos);
  CHECK_FALSE(topology.add_link("a", "b", {.capacity_bps = 1, .capacity_stddev_bps = 1.5e308}).is_ok());
  CHECK(topology.link(link).properties.capacity_bps == 1.5e308);
  CHECK(topology.add_link("a", "b", {.capacity_bps = kUnlimited}).is_ok());  // meant so
}

TEST_CASE("what cannot be is refused") {
  Topology topology = nodes({"a", "b"});
  const auto code = [](const auto& result) { return result.status().code(); };
  CHECK(code(topology.add_node({.name = ""})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_node({.name = "\xff"})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_node({.name = std::string("a\0b", 3)})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_node({.name = "a"})) == StatusCode::kAlreadyExists);
  for (const double bad : {0.0, -1.0, kNan, -kUnlimited}) {
    CAPTURE(bad);
    CHECK(code(topology.add_node({"x", bad, 1e6})) == StatusCode::kInvalidArgument);
    CHECK(code(topology.add_node({"x", 1e6, bad})) == StatusCode::kInvalidArgument);
    CHECK(code(topology.add_link("a", "b", capacity(bad))) == StatusCode::kInvalidArgument);
  }
  CHECK(code(topology.add_link("a", "a", {})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_link("a", "b", {1e6, -1ns, 0})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_link("a", "b", {1e6, 25h, 0})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_link("a", "b", {1e6, 0ns, -0.1})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_link("a", "b", {1e6, 0ns, kNan})) == StatusCode::kInvalidArgument);
  CHECK(code(topology.add_link("a", "z", {})) == StatusCode::kNotFound);
  CHECK(code(topology.add_link(NodeId(0), NodeId(9), {})) == StatusCode::kInvalidArgument);
  CHECK(topology.node_count() == 2);
  CHECK(topology.link_count() == 0);
  const LinkId link = *topology.add_link("a", "b", capacity(1e6));
  CHECK_FALSE(topology.set_capacity(link, 0).is_ok());
  CHECK_FALSE(topology.set_limits(NodeId(0), 1e6, kNan).is_ok());
  CHECK(topology.link(link).properties.capacity_bps == 1e6);
  CHECK(topology.node(NodeId(0)).egress_bps == kUnlimited);
}

TEST_CASE("capacities and limits are replaced") {
  Topology topology = nodes({"a", "b"});
  const LinkId link = *topology.add_link("a", "b", {});
  REQUIRE(topology.set_capacity(link, 3e6).is_ok());
  REQUIRE(topology.set_limits(NodeId(1), 4e6, 5e6).is_ok());
  CHECK(topology.link(link).properties.capacity_bps == 3e6);
  CHECK(topology.node(NodeId(1)).egress_bps == 4e6);
  CHECK(topology.node(NodeId(1)).ingress_bps == 5e6);
}

TEST_CASE("copies are independent") {
  Topology original = nodes({"a", "b", "c"});
  REQUIRE(original.add_link("a", "b", capacity(1e6)).is_ok());
  Topology copy = original;
  REQUIRE(copy.add_link("b", "c", {}).is_ok());
  REQUIRE(copy.set_capacity(LinkId(0), 9e6).is_ok());
  CHECK(original.link_count() == 1);
  CHECK(original.link(LinkId(0)).properties.capacity_bps == 1e6);
  CHECK_FALSE(original.reachable_from(NodeId(0))[2]);
  CHECK(copy.reachable_from(NodeId(0))[2]);
  const Topology moved = std::move(copy);
  CHECK(moved.link_count() == 2);
  original = moved;
  CHECK(original.reachable_from(NodeId(0))[2]);
}

TEST_CASE("reachability follows the direction of links") {
  Topology topology = nodes({"a", "b", "c", "d"});
  REQUIRE(topology.add_link("a", "b", {}).is_ok());
  REQUIRE(topology.add_link("b", "c", {}).is_ok());
  REQUIRE(topology.add_link("d", "a", {}).is_ok());
  CHECK(topology.reachable_from(NodeId(0)) == std::vector<bool>{true, true, true, false});
  CHECK(topology.reachable_from(NodeId(2)) == std::vector<bool>{false, false, true, false});
}

TEST_CASE("a full mesh has every ordered pair once") {
  const std::vector<std::string> names = {"x", "y", "z", "w"};
  const auto mesh = full_mesh(names, {2e6, 5ms, 0});
  REQUIRE(mesh.is_ok());
  CHECK(mesh->link_count() == 12);
  for (std::uint32_t from = 0; from < 4; ++from) {
    CHECK(mesh->out_links(NodeId(from)).size() == 3);
    CHECK(mesh->in_links(NodeId(from)).size() == 3);
  }
  CHECK(mesh->link(LinkId(7)).properties.latency == 5ms);
  const std::vector<std::string> twice = {"x", "x"};
  CHECK(full_mesh(twice, {}).status().code() == StatusCode::kAlreadyExists);
  CHECK(full_mesh({}, {})->node_count() == 0);
  const std::vector<std::string> many(3000, "n");
  CHECK(full_mesh(many, {}).status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("drawn capacities are normal and come again from the same seed") {
  std::vector<std::string> names;
  for (int i = 0; i < 150; ++i) names.push_back("n" + std::to_string(i));
  Topology mesh = *full_mesh(names, {});
  REQUIRE(mesh.set_capacity(LinkId(5), 123).is_ok());
  Topology again = mesh;
  const std::uint64_t seed = test_seed(7);
  REQUIRE(draw_capacities(mesh, 10e6, 1e6, seed).is_ok());
  REQUIRE(draw_capacities(again, 10e6, 1e6, seed).is_ok());
  CHECK(mesh.link(LinkId(5)).properties.capacity_bps == 123);  // measured
  double sum = 0;
  double squares = 0;
  double within_one = 0;
  const double count = static_cast<double>(mesh.link_count() - 1);
  for (std::uint32_t i = 0; i < mesh.link_count(); ++i) {
    const double value = mesh.link(LinkId(i)).properties.capacity_bps;
    REQUIRE(value == again.link(LinkId(i)).properties.capacity_bps);
    if (i == 5) continue;
    sum += value / 1e6;
    squares += value / 1e6 * (value / 1e6);
    within_one += std::abs(value - 10e6) < 1e6 ? 1 : 0;
  }
  const double mean = sum / count;
  // Five standard errors over 22,349 draws.
  CHECK(std::abs(mean - 10) < 0.034);
  CHECK(std::abs(std::sqrt(squares / count - mean * mean) - 1) < 0.024);
  CHECK(std::abs(within_one / count - 0.6827) < 0.016);
  REQUIRE(draw_capacities(again, 10e6, 1e6, seed + 1).is_ok());
  CHECK(again.link(LinkId(0)).properties.capacity_bps == mesh.link(LinkId(0)).properties.capacity_bps);
  REQUIRE(draw_capacities(again, 10e6, 1e6, seed + 1, false).is_ok());
  CHECK(again.link(LinkId(0)).properties.capacity_bps != mesh.link(LinkId(0)).properties.capacity_bps);
  CHECK(again.link(LinkId(5)).properties.capacity_bps > 1e6);
}

TEST_CASE("drawn capacities are the same on every machine") {
  const std::vector<std::string> names = {"a", "b", "c"};
  Topology mesh = *full_mesh(names, {});
  REQUIRE(draw_capacities(mesh, 10e6, 1e6, 7).is_ok());
  // From a second implementation of the generator and of the ratio of uniforms, in Python.
  const std::vector<double> expected = {10503233.91494218, 10675583.091646465, 9454863.785900816,
                                        7996595.826732546, 9061028.984122777,  9351477.058772562};
  for (std::uint32_t i = 0; i < 6; ++i) {
    CHECK(mesh.link(LinkId(i)).properties.capacity_bps == expected[i]);
  }
}

TEST_CASE("no draw is below a hundredth of the mean, and nonsense is refused") {
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) names.push_back("n" + std::to_string(i));
  Topology mesh = *full_mesh(names, {});
  REQUIRE(draw_capacities(mesh, 1e6, 1e6, test_seed(3)).is_ok());
  for (std::uint32_t i = 0; i < mesh.link_count(); ++i) {
    REQUIRE(mesh.link(LinkId(i)).properties.capacity_bps >= 1e4);
  }
  for (const auto& [mean, stddev] : std::vector<std::pair<double, double>>{
           {0, 0}, {-1, 0}, {kNan, 0}, {kUnlimited, 0}, {1, -1}, {1, 2}, {1, kNan}}) {
    CHECK(draw_capacities(mesh, mean, stddev, 1).code() == StatusCode::kInvalidArgument);
  }
  REQUIRE(draw_capacities(mesh, 1e6, 0, 1, false).is_ok());
  CHECK(mesh.link(LinkId(9)).properties.capacity_bps == 1e6);
}
