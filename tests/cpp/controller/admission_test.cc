#include "controller/admission.h"

#include <doctest/doctest.h>

#include <cmath>

#include "controller/overlay_change.h"
#include "controller/protocol.h"

using namespace square;
using namespace square::controller;

namespace {

PlanningState state_of(const std::vector<std::string>& names) {
  Scenario scenario;
  scenario.topology = *full_mesh(names, {});
  return {"", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
}

GroupSpec group(const std::string& name, const std::string& tenant = "alice") {
  return {name, tenant, {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
}

// Plans anything but the tenant mallory's collectives.
struct FakePlanner {
  int calls = 0;
  PlanMaker maker() {
    return [this](const Scenario& scenario) -> Result<PublishedPlanPtr> {
      ++calls;
      auto plan = std::make_shared<Plan>();
      for (const CollectiveSpec& collective : scenario.collectives) {
        if (collective.tenant == "mallory") return failed_precondition("no path");
        plan->collectives.emplace_back();
      }
      return std::make_shared<const PublishedPlan>(PublishedPlan{plan, nullptr});
    };
  }
};

}  // namespace

TEST_CASE("demands that can be planned together are planned once") {
  FakePlanner planner;
  std::vector<Demand> demands;
  for (int i = 0; i < 8; ++i) demands.emplace_back(group("g" + std::to_string(i)));
  std::vector<const Demand*> pointers;
  for (const Demand& demand : demands) pointers.push_back(&demand);
  const Admission admission = admit(state_of({"a", "b"}), pointers, false, planner.maker());
  CHECK(planner.calls == 1);
  REQUIRE(admission.next != nullptr);
  CHECK(admission.next->plan->collectives.size() == 8);
  // The same once more changes nothing.
  const Admission again = admit(admission.state, pointers, false, planner.maker());
  CHECK(planner.calls == 1);
  CHECK(again.next == nullptr);
  CHECK(again.verdicts[3].collectives == admission.verdicts[3].collectives);
  CHECK(admit(admission.state, {}, true, planner.maker()).next != nullptr);
}

TEST_CASE("a demand that cannot be planned is refused alone") {
  for (std::size_t bad = 0; bad < 8; ++bad) {
    CAPTURE(bad);
    FakePlanner planner;
    std::vector<Demand> demands;
    for (std::size_t i = 0; i < 8; ++i) {
      demands.emplace_back(group("g" + std::to_string(i), i == bad ? "mallory" : "alice"));
    }
    std::vector<const Demand*> pointers;
    for (const Demand& demand : demands) pointers.push_back(&demand);
    const Admission admission = admit(state_of({"a", "b"}), pointers, true, planner.maker());
    for (std::size_t i = 0; i < 8; ++i) CHECK(admission.verdicts[i].status.is_ok() == (i != bad));
    CHECK(admission.verdicts[bad].status == failed_precondition("no path"));
    REQUIRE(admission.next != nullptr);
    CHECK(admission.next->plan->collectives.size() == 7);
    CHECK(planner.calls <= 8);
    CHECK(admission.replan.is_ok());
  }
}

TEST_CASE("adopted groups that cannot be planned are set aside by name, and are in nobody's way") {
  for (const std::size_t count : {1, 8}) {
    CAPTURE(count);
    const auto is_bad = [&](std::size_t i) { return i == 3 || count == 1; };
    PlanningState state = state_of({"a", "b"});
    for (std::uint32_t i = 0; i < count; ++i) {
      const GroupSpec spec = group("g" + std::to_string(i), is_bad(i) ? "mallory" : "alice");
      REQUIRE(state.registry.adopt({spec, {CollectiveId(i)}, i + 1}, state.topology).is_ok());
    }
    FakePlanner planner;
    const Demand fresh = group("new");
    Admission admission = admit(state, {&fresh}, true, planner.maker());
    CHECK(admission.verdicts[0].status.is_ok());
    CHECK(admission.replan.is_ok());
    REQUIRE(admission.next != nullptr);
    CHECK(admission.next->plan->collectives.size() == count);  // with the new one
    CHECK(planner.calls <= 10);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Demand again = group("g" + std::to_string(i), is_bad(i) ? "mallory" : "alice");
      const Status said = admit(admission.state, {&again}, false, planner.maker()).verdicts[0].status;
      CHECK(said.is_ok() == !is_bad(i));
      if (!said.is_ok()) CHECK(said.message().find("no path") != std::string::npos);
    }
    // Another policy may plan it.
    const Demand policy = PolicySpec{};
    int calls = 0;
    const auto plans_all = [&](const Scenario& scenario) -> Result<PublishedPlanPtr> {
      ++calls;
      auto plan = std::make_shared<Plan>();
      plan->collectives.resize(scenario.collectives.size());
      return std::make_shared<const PublishedPlan>(PublishedPlan{plan, nullptr});
    };
    admission = admit(admission.state, {&policy}, false, plans_all);
    CHECK(admission.next->plan->collectives.size() == count + 1);
    CHECK(calls == 2);
  }
}

TEST_CASE("where nothing can be planned, adopted groups are not to blame") {
  PlanningState state = state_of({"a", "b"});
  REQUIRE(state.registry.adopt({group("g"), {CollectiveId(0)}, 1}, state.topology).is_ok());
  const Admission admission =
      admit(state, {}, true, [](const Scenario&) -> Result<PublishedPlanPtr> { return cancelled("stop"); });
  CHECK(admission.replan.code() == StatusCode::kCancelled);
  CHECK(admission.state.registry.untried() == std::vector<std::string>{"g"});
}

TEST_CASE("members of one batch that disagree are told so") {
  FakePlanner planner;
  const Demand first = group("g");
  const Demand second = group("g", "bob");
  const Admission admission = admit(state_of({"a", "b"}), {&first, &second}, false, planner.maker());
  CHECK(admission.verdicts[0].status.is_ok());
  CHECK(admission.verdicts[1].status.code() == StatusCode::kInvalidArgument);
}

TEST_CASE("an open overlay meshes who is there") {
  Topology topology;
  topology = *remesh(topology, {"a"}, {});
  CHECK(topology.node_count() == 1);
  topology = *remesh(topology, {"b", "c"}, {});
  CHECK(topology.link_count() == 6);
  CHECK(topology.find_node("a") == NodeId(0));
  // Measured links stay as they are.
  REQUIRE(topology.set_capacity(*topology.find_link(NodeId(0), *topology.find_node("b")), 1e6).is_ok());
  topology = *remesh(topology, {"d"}, {"c"});
  CHECK(topology.node_count() == 4);
  CHECK(topology.link_count() == 6);
  CHECK(topology.out_links(*topology.find_node("c")).empty());
  CHECK(topology.link(*topology.find_link(NodeId(0), *topology.find_node("b"))).properties.capacity_bps ==
        1e6);
  topology = *remesh(topology, {"c"}, {});
  CHECK(topology.link_count() == 12);
}

TEST_CASE("links to avoid stay avoided when the topology changes") {
  PlanningState state = state_of({"a", "b", "c"});
  const auto id = [&](const char* name) { return *state.topology.find_node(name); };
  PolicySpec policy;
  policy.name = "exact";
  policy.avoid_links = {*state.topology.find_link(id("b"), id("c"))};
  REQUIRE(state.set_policy(policy).is_ok());
  // Links come in another order, and the one to avoid goes for a while.
  state.topology = *remesh(state.topology, {}, {"b"});
  CHECK(state.scenario().policy.avoid_links.empty());
  state.topology = *remesh(state.topology, {"b"}, {});
  const auto avoided = state.scenario().policy.avoid_links;
  REQUIRE(avoided.size() == 1);
  CHECK(avoided[0] == *state.topology.find_link(id("b"), id("c")));
  CHECK(avoided != policy.avoid_links);

  policy.avoid_links = {LinkId(6)};
  CHECK(state.set_policy(policy).code() == StatusCode::kInvalidArgument);
  CHECK(state.scenario().policy.avoid_links == avoided);
}

TEST_CASE("nothing is planned through who is away, but for want of another way") {
  PlanningState state = state_of({"a", "b", "c"});
  const Demand pair = group("g");
  FakePlanner planner;
  state = admit(state, {&pair}, false, planner.maker()).state;
  state.away = {"b", "c"};  // b is a member
  CHECK(state.left_out() == std::set<std::string>{"c"});
  CHECK(state.scenario().topology.link_count() == 2);
  CHECK(state.scenario().topology.node_count() == 3);
  CHECK(state.whole_scenario().topology.link_count() == 6);

  std::vector<std::size_t> tried;
  const PlanMaker needs_all = [&](const Scenario& scenario) -> Result<PublishedPlanPtr> {
    tried.push_back(scenario.topology.link_count());
    if (scenario.topology.link_count() < 6) return failed_precondition("no path");
    return std::make_shared<const PublishedPlan>(PublishedPlan{std::make_shared<Plan>(), nullptr});
  };
  const Admission forced = admit(state, {}, true, needs_all);
  CHECK(forced.replan.is_ok());
  CHECK(forced.next != nullptr);
  CHECK(tried == std::vector<std::size_t>{2, 6});
}

TEST_CASE("a member that left in order relays nothing for the rest of its groups") {
  PlanningState state = state_of({"a", "b", "c"});
  const Demand pair = group("g");
  FakePlanner planner;
  state = admit(state, {&pair}, false, planner.maker()).state;
  // A dead member ends all groups that there are: nothing is to be planned around it.
  state.away = {"b"};
  CHECK(state.no_relays().empty());
  state.departed = {"b"};
  CHECK(state.no_relays() == std::set<std::string>{"b"});
  CHECK(state.scenario().policy.avoid_nodes == std::vector<NodeId>{*state.topology.find_node("b")});

  // A broken link is used again before the node that left is.
  state.broken = {{"a", "c"}};
  std::vector<std::size_t> tried;
  const PlanMaker needs_links = [&](const Scenario& scenario) -> Result<PublishedPlanPtr> {
    tried.push_back(scenario.topology.link_count());
    CHECK(scenario.policy.avoid_nodes.size() == 1);
    if (scenario.topology.link_count() < 6) return failed_precondition("no path");
    return std::make_shared<const PublishedPlan>(PublishedPlan{std::make_shared<Plan>(), nullptr});
  };
  const Admission over = admit(state, {}, true, needs_links);
  CHECK(over.over_broken);
  CHECK_FALSE(over.is_whole);
  CHECK(tried == std::vector<std::size_t>{5, 6});
}

TEST_CASE("a collective counts for a part of its tenant's heaviest one at least") {
  PlanningState state = state_of({"a", "b", "c"});
  GroupSpec heavy = group("heavy");
  heavy.collectives[0].weight = 1e4;
  GroupSpec light = group("light");
  light.collectives[0].weight = 1e-4;
  const std::vector<Demand> demands{heavy, light};
  FakePlanner planner;
  state = admit(state, {&demands[0], &demands[1]}, false, planner.maker()).state;
  const CollectiveId id = state.registry.groups().at("light")->collectives.front().id;
  state.demand[id] = 1.0 / 256;
  for (const CollectiveSpec& collective : state.scenario().collectives)
    CHECK(collective.weight == (collective.id == id ? 1.0 : 1e4));
  for (const double weight : {1e-308, 9e-5, 1.1e4, 1e300, -1.0, std::nan("")}) {
    light.collectives[0].weight = weight;
    light.name = "lighter";
    const Demand wrong = light;
    const Admission refused = admit(state, {&wrong}, false, planner.maker());
    CHECK(refused.verdicts[0].status.message().find("it must be from 0.0001 to 10000") != std::string::npos);
  }
}

TEST_CASE("a scenario's collectives keep what they demand") {
  Scenario scenario;
  scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {});
  scenario.policy.name = "exact";
  scenario.policy.objective = Objective::kCost;
  CollectiveSpec collective{
      CollectiveId(7), "t", 1.0, CollectiveOp::kBroadcast, {}, NodeId(1), {}, 8, {}, {}};
  collective.members = {NodeId(0), NodeId(1)};
  collective.required_bps = 1e6;
  collective.max_latency = {from_seconds(0.08), Duration::max()};
  scenario.collectives = {collective};
  Scenario filled{"", scenario.topology, {}, {}, {}};
  GroupRegistry(scenario).fill(filled);
  REQUIRE(filled.collectives.size() == 1);
  CHECK(filled.collectives[0].required_bps == collective.required_bps);
  CHECK(filled.collectives[0].max_latency == collective.max_latency);
}
