// Epochs and the numbers of sessions over several plans, without the coordinator.
#include "controller/epoch_planner.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::controller;

namespace {

Scenario broadcasts(std::vector<std::uint32_t> collectives) {
  Scenario scenario;
  scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {1e8, std::chrono::milliseconds(1), 0});
  scenario.policy.name = "exact";
  scenario.tenants = {{"tenant", 1.0}};
  for (const auto id : collectives) {
    CollectiveSpec spec;
    spec.id = CollectiveId(id);
    spec.tenant = "tenant";
    spec.op = CollectiveOp::kBroadcast;
    spec.root = NodeId(0);
    spec.members = {NodeId(0), NodeId(1)};
    scenario.collectives.push_back(spec);
  }
  return scenario;
}

SessionId session_of(const PublishedPlan& published, std::uint32_t collective) {
  return published.plan->find_collective(CollectiveId(collective))->sessions.front();
}

// Its plans are provisional, until it fails.
class Slow final : public PlanSource {
 public:
  explicit Slow(const bool& fails) : fails_(fails) {}
  Result<PlanResult> plan(const Scenario& scenario) override {
    if (fails_) return failed_precondition("no way");
    auto made = make_quick_plan(scenario);
    return made;
  }
  std::optional<Result<PlanResult>> take_better() override { return std::nullopt; }
  void stop() override {}

 private:
  const bool& fails_;
};

}  // namespace

TEST_CASE("epoch planner: only plans that were published count") {
  EpochPlanner planner({}, make_background_plan_source([] {}));
  const auto tried = planner.make(broadcasts({4}));
  REQUIRE_MESSAGE(tried.is_ok(), tried.status().to_string());
  CHECK((*tried)->plan->epoch == Epoch(1));
  const auto first = planner.make(broadcasts({4}));
  REQUIRE(first.is_ok());
  CHECK((*first)->plan->epoch == Epoch(1));
  CHECK((*first)->parts->event_for("a")->plan().epoch() == 1);
  planner.note_published(**first, false);

  const auto second = planner.make(broadcasts({2, 4}));
  REQUIRE(second.is_ok());
  CHECK((*second)->plan->epoch == Epoch(2));
  CHECK(session_of(**second, 4) == session_of(**first, 4));
  CHECK(session_of(**second, 2) != session_of(**first, 4));
}

TEST_CASE("epoch planner: plans that nobody had leave sessions their numbers") {
  EpochPlanner planner({}, make_background_plan_source([] {}));
  const auto published = planner.make(broadcasts({2, 4}));
  REQUIRE(published.is_ok());
  planner.note_published(**published, false);
  // Trials without the one, and with others.
  REQUIRE(planner.make(broadcasts({4})).is_ok());
  REQUIRE(planner.make(broadcasts({4, 5, 6, 7})).is_ok());
  const auto next = planner.make(broadcasts({2, 4, 6}));
  REQUIRE(next.is_ok());
  CHECK(session_of(**next, 2) == session_of(**published, 2));
  CHECK(session_of(**next, 4) == session_of(**published, 4));
  CHECK(session_of(**next, 6) == SessionId(2));
}

TEST_CASE("epoch planner: what stays as it was says so, but to who has had other plans of these numbers") {
  EpochPlanner planner({}, make_background_plan_source([] {}));
  const auto next = [&] {
    const auto made = planner.make(broadcasts({4}));
    REQUIRE(made.is_ok());
    planner.note_published(**made, false);
    return (*made)->parts->oldest();
  };
  CHECK(next() == Epoch(1));
  CHECK(next() == Epoch(1));
  planner.pass(Epoch(1));
  CHECK(next() == Epoch(3));
  CHECK(next() == Epoch(3));
  planner.pass(Epoch(9));
  CHECK(next() == Epoch(10));
}

TEST_CASE("epoch planner: what cannot be planned is an error and no epoch") {
  EpochPlanner planner({}, make_background_plan_source([] {}));
  Scenario scenario = broadcasts({1});
  scenario.policy.name = "none such";
  CHECK_FALSE(planner.make(scenario).is_ok());
  CHECK((*planner.make(broadcasts({1})))->plan->epoch == Epoch(1));
}

TEST_CASE("epoch planner: a provisional plan that stays is planned again where its better one was given up") {
  bool fails = false;
  EpochPlanner planner({}, std::make_unique<Slow>(fails));
  const auto first = planner.make(broadcasts({1}));
  REQUIRE_MESSAGE(first.is_ok(), first.status().to_string());
  CHECK_FALSE(planner.note_published(**first, false));
  CHECK_FALSE(planner.note_kept());  // nothing was made since
  fails = true;
  CHECK_FALSE(planner.make(broadcasts({1, 2})).is_ok());
  CHECK(planner.note_kept());
  CHECK(planner.take_plan_again());
  // That fails as well: once is enough.
  CHECK_FALSE(planner.make(broadcasts({1})).is_ok());
  CHECK_FALSE(planner.note_kept());

  fails = false;
  const auto second = planner.make(broadcasts({1}));
  CHECK_FALSE(planner.note_published(**second, false));
  // Made, and then not published.
  CHECK(planner.make(broadcasts({1, 2})).is_ok());
  planner.drop();
  CHECK(planner.note_kept());
}
