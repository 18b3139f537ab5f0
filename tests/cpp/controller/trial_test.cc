// Groups that were planned and cannot be any more, with a planner that says so.
#include "controller/trial.h"

#include <doctest/doctest.h>

#include <set>

#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using square::test::hello_of;
using square::test::RecordedLine;
using square::test::Said;

namespace {

GroupSpec group_of(const std::string& name, const std::string& tenant) {
  return {name, tenant, {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
}

// Plans anything that does not have all of `together`: collectives by the order in which they came.
struct ChoosyPlanner {
  std::set<std::uint32_t> together;
  Status fault = internal_error("figures are too far apart");
  int calls = 0;

  PlanMaker maker() {
    return [this](const Scenario& scenario) -> Result<PublishedPlanPtr> {
      ++calls;
      auto plan = std::make_shared<Plan>();
      std::set<std::uint32_t> missing = together;
      for (const CollectiveSpec& collective : scenario.collectives) {
        missing.erase(collective.id.value());
        plan->collectives.emplace_back().id = collective.id;
      }
      if (!together.empty() && missing.empty()) return fault;
      return std::make_shared<const PublishedPlan>(PublishedPlan{plan, nullptr});
    };
  }
};

PlanningState state_with(const std::vector<std::pair<std::string, std::string>>& groups) {
  Scenario scenario;
  scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {});
  PlanningState state{"", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
  ChoosyPlanner planner;
  for (const auto& [name, tenant] : groups) {
    const Demand demand = group_of(name, tenant);
    state = admit(state, {&demand}, false, planner.maker()).state;
  }
  return state;
}

std::set<std::string> set_aside_in(const PlanningState& state) {
  std::set<std::string> names;
  for (const auto& [name, group] : state.registry.groups())
    if (!group->unplannable.is_ok()) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("a group that cannot be planned any more is set aside alone, and others are planned at once") {
  const PlanningState state = state_with({{"g0", "alice"},
                                          {"g1", "bob"},
                                          {"g2", "alice"},
                                          {"g3", "carol"},
                                          {"g4", "bob"},
                                          {"g5", "carol"},
                                          {"g6", "dave"},
                                          {"g7", "alice"}});
  for (std::uint32_t bad = 0; bad < 8; ++bad) {
    CAPTURE(bad);
    ChoosyPlanner planner{{bad}};
    const Demand fresh = group_of("new", "erin");
    const Admission admission = admit(state, {&fresh}, true, planner.maker());
    CHECK(admission.verdicts[0].status.is_ok());
    CHECK(admission.replan.is_ok());
    CHECK(set_aside_in(admission.state) == std::set<std::string>{"g" + std::to_string(bad)});
    REQUIRE(admission.next != nullptr);
    CHECK(admission.next->plan->collectives.size() == 8);
    CHECK(planner.calls <= 10);
    // Members that register it now hear why.
    const std::string name = "g" + std::to_string(bad);
    const Demand again = group_of(name, state.registry.groups().at(name)->tenant);
    const Status said = admit(admission.state, {&again}, false, planner.maker()).verdicts[0].status;
    CHECK(said.code() == StatusCode::kFailedPrecondition);
    CHECK(said.message().find("figures are too far apart") != std::string::npos);
    CHECK(said.message().find("earlier controller") == std::string::npos);
  }
}

TEST_CASE("of groups that cannot be planned together the newest of the newest tenant goes") {
  // By age: alice has 0 and 3, bob 1 and 4, carol 2.
  const PlanningState state =
      state_with({{"a0", "alice"}, {"b0", "bob"}, {"c0", "carol"}, {"a1", "alice"}, {"b1", "bob"}});
  const auto goes = [&](std::set<std::uint32_t> together) {
    ChoosyPlanner planner{std::move(together)};
    return set_aside_in(admit(state, {}, true, planner.maker()).state);
  };
  CHECK(goes({0, 2}) == std::set<std::string>{"c0"});
  CHECK(goes({0, 3}) == std::set<std::string>{"a1"});
  CHECK(goes({1, 3}) == std::set<std::string>{"b0"});
  CHECK(goes({1, 4}) == std::set<std::string>{"b1"});
  CHECK(goes({0, 1, 2, 3, 4}) == std::set<std::string>{"c0"});
}

TEST_CASE("no group is to blame for what no plan could have, or for a planner that stops") {
  const PlanningState state = state_with({{"g0", "alice"}, {"g1", "bob"}});
  for (const Status& fault : {internal_error("broken"), cancelled("the controller stops")}) {
    int calls = 0;
    const Admission admission = admit(state, {}, true, [&](const Scenario&) -> Result<PublishedPlanPtr> {
      ++calls;
      return fault;
    });
    CHECK(admission.replan == fault);
    CHECK(admission.next == nullptr);
    CHECK(set_aside_in(admission.state).empty());
    CHECK(calls <= 2);
  }
}

TEST_CASE("what stands in the way is looked for with a bounded number of plans") {
  std::vector<std::pair<std::string, std::string>> groups;
  for (int i = 0; i < 200; ++i) groups.emplace_back("g" + std::to_string(i), "alice");
  const PlanningState state = state_with(groups);
  int calls = 0;
  // Nothing but the first two.
  const Admission admission =
      admit(state, {}, true, [&](const Scenario& scenario) -> Result<PublishedPlanPtr> {
        ++calls;
        for (const CollectiveSpec& collective : scenario.collectives)
          if (collective.id.value() > 1) return internal_error("too many");
        return std::make_shared<const PublishedPlan>(PublishedPlan{std::make_shared<Plan>(), nullptr});
      });
  CHECK(admission.replan.is_ok());
  CHECK(set_aside_in(admission.state).size() == 198);
  CHECK(calls <= kMostTrials + 3);
}

TEST_CASE("groups that are set aside are tried again with a change, once in a while") {
  PlanningState state = state_with({{"g0", "alice"}, {"g1", "bob"}});
  Retrials retrials;
  TimePoint now{std::chrono::hours(1)};
  retrials.note_change(state.registry, now);
  ChoosyPlanner planner{{1}};
  state = admit(state, {}, true, planner.maker()).state;
  REQUIRE(set_aside_in(state) == std::set<std::string>{"g1"});
  retrials.note_change(state.registry, now);
  retrials.note_change(state.registry, now + kTrialRest - std::chrono::seconds(1));
  CHECK(state.registry.untried().empty());
  retrials.note_change(state.registry, now + kTrialRest);
  CHECK(state.registry.untried() == std::vector<std::string>{"g1"});
  // Again in vain, and then not.
  state = admit(state, {}, true, planner.maker()).state;
  CHECK(set_aside_in(state) == std::set<std::string>{"g1"});
  retrials.note_change(state.registry, now + kTrialRest + std::chrono::seconds(1));
  CHECK(state.registry.untried().empty());
  retrials.note_change(state.registry, now + 2 * kTrialRest);
  planner.together.clear();
  const Admission admission = admit(state, {}, true, planner.maker());
  CHECK(set_aside_in(admission.state).empty());
  CHECK(admission.next->plan->collectives.size() == 2);
}

TEST_CASE("members of a group that is set aside hear why, once") {
  const PlanningState before = state_with({{"g0", "alice"}, {"g1", "bob"}});
  Members members(std::chrono::seconds(2));
  const auto line = std::make_shared<RecordedLine>();
  members.join(hello_of("a", 1, "here:1"), line, TimePoint(std::chrono::hours(1)));
  (void)line->heard();
  ChoosyPlanner planner{{1}};
  const PlanningState after = admit(before, {}, true, planner.maker()).state;
  tell_set_aside(before.registry, after.registry, members);
  CHECK(line->heard() ==
        Said{"unplanned: group \"g1\" cannot be planned any more: figures are too far apart; "
             "close it and make a new one"});
  tell_set_aside(after.registry, after.registry, members);
  CHECK(line->heard().empty());
}
