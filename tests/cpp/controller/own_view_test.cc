#include "controller/own_view.h"

#include <doctest/doctest.h>

#include "square/planner.h"
#include "square/scenario.h"
#include "square/topology.h"

using namespace square;
using namespace square::controller;

namespace {

// Alice broadcasts from a to b over c, bob from c to d.
Plan plan_of_two() {
  Scenario scenario;
  for (const char* name : {"a", "b", "c", "d"}) REQUIRE(scenario.topology.add_node({.name = name}).is_ok());
  const auto link = [&](std::uint32_t from, std::uint32_t to) {
    REQUIRE(scenario.topology.add_link(NodeId(from), NodeId(to), {.capacity_bps = 1e6}).is_ok());
  };
  link(0, 2);
  link(2, 1);
  link(2, 3);
  scenario.policy.name = "exact";
  scenario.tenants = {{"alice", 1.0}, {"bob", 1.0}};
  for (const auto& [id, tenant, root, other] : {std::tuple(0, "alice", 0, 1), std::tuple(1, "bob", 2, 3)}) {
    CollectiveSpec spec;
    spec.id = CollectiveId(static_cast<CollectiveId::value_type>(id));
    spec.tenant = tenant;
    spec.root = NodeId(static_cast<NodeId::value_type>(root));
    spec.members = {spec.root, NodeId(static_cast<NodeId::value_type>(other))};
    spec.size_bytes = 1000;
    scenario.collectives.push_back(spec);
  }
  auto plan = make_plan(scenario);
  REQUIRE_MESSAGE(plan.is_ok(), plan.status().to_string());
  return std::move(plan->plan);
}

std::vector<std::string> tenants_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanCollective& one : plan.collectives) names.push_back(one.tenant);
  return names;
}

}  // namespace

TEST_CASE("a tenant sees its own collectives, and the links as it loads them") {
  const Plan all = plan_of_two();
  const Plan own = view_of_tenant(all, "bob");
  CHECK(tenants_of(own) == std::vector<std::string>{"bob"});
  REQUIRE(own.tenants.size() == 1);
  CHECK(own.tenants[0].name == "bob");
  for (const PlanSession& session : own.sessions) CHECK(session.collective == CollectiveId(1));
  CHECK(own.links[0].load_bps == 0);
  CHECK(own.links[2].load_bps == doctest::Approx(1e6));
  CHECK(own.certificate.levels.empty());
  CHECK(own.certificate.cuts.empty());
  CHECK(own.total_rate_bps == doctest::Approx(1e6));
  CHECK(view_of_tenant(all, "mallory").collectives.empty());
  const auto read = plan_from_json(to_json(own));
  CHECK_MESSAGE(read.is_ok(), read.status().to_string());
}

TEST_CASE("a node sees what it is a member of, or relays") {
  const Plan all = plan_of_two();
  CHECK(tenants_of(view_of_node(all, "a")) == std::vector<std::string>{"alice"});
  CHECK(tenants_of(view_of_node(all, "c")) == std::vector<std::string>{"alice", "bob"});
  CHECK(tenants_of(view_of_node(all, "d")) == std::vector<std::string>{"bob"});
  CHECK(view_of_node(all, "nowhere").collectives.empty());
}

TEST_CASE("a tenant sees the nodes that its collectives touch") {
  const Plan all = plan_of_two();
  std::vector<NodeInformation> nodes;
  for (const PlanNode& node : all.nodes) nodes.push_back({node.name, "", true, Epoch(1)});
  std::vector<std::string> seen;
  for (const NodeInformation& node : nodes_of_tenant(nodes, &all, "bob")) seen.push_back(node.name);
  CHECK(seen == std::vector<std::string>{"c", "d"});
  CHECK(nodes_of_tenant(nodes, nullptr, "bob").empty());
}
