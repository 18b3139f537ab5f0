// Plans are installed, activated and retired.
#include "node/plan/live_plans.h"

#include <doctest/doctest.h>

#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

struct Watching final : LivePlans::Host {
  void open(const LivePlans::CollectivePointer& collective) override {
    said.push_back("open " + std::to_string(collective->epoch().value()));
  }
  void close(const LivePlans::CollectivePointer& collective) override {
    said.push_back("close " + std::to_string(collective->epoch().value()));
  }
  void open_plan(const LivePlans::PlanPointer& /*plan*/) override {}
  void move_up(const LivePlans::PlanPointer& plan, bool /*may_stay*/) override {
    said.push_back("move to " + std::to_string(plan->epoch().value()));
  }
  void follow(const LivePlans::PlanPointer& plan) override {
    said.push_back("follow " + std::to_string(plan->epoch().value()));
  }
  [[nodiscard]] bool runs_before(const InstalledPlan& plan) const override { return oldest < plan.epoch(); }

  std::vector<std::string> said;
  Epoch oldest{1'000};  // of what runs
};

struct Plans : Alone {
  Plans() : Alone("n1") {}
  void install(std::uint32_t epoch) {
    plans.install(line_plan(Epoch(epoch)), [this](Epoch done) { installed.push_back(done.value()); });
  }
  Watching host;
  LivePlans plans{*node, host};
  std::vector<std::uint64_t> installed;
};

}  // namespace

TEST_CASE("a plan is opened once, and the one before the last active goes") {
  Plans test;
  CHECK(test.plans.active() == nullptr);
  test.plans.activate(Epoch(1));  // not installed
  CHECK(test.plans.active() == nullptr);
  test.install(1);
  test.plans.activate(Epoch(1));
  test.install(2);
  test.install(2);
  CHECK(test.plans.all().size() == 2);
  test.plans.activate(Epoch(2));
  CHECK(test.plans.find(Epoch(1)) != nullptr);
  test.plans.activate(Epoch(1));  // an old one
  CHECK(test.plans.active()->epoch() == Epoch(2));
  test.install(3);
  test.plans.activate(Epoch(3));
  CHECK(test.plans.find(Epoch(1)) == nullptr);
  CHECK(test.installed == std::vector<std::uint64_t>{1, 2, 2, 3});
  CHECK(test.host.said == std::vector<std::string>{"open 1", "follow 1", "open 2", "move to 1", "follow 2",
                                                   "open 3", "move to 2", "close 1", "follow 3"});
}

TEST_CASE("a plan is confirmed when nothing runs before the active one, and told to move until then") {
  Plans test;
  test.install(1);
  test.plans.activate(Epoch(1));
  test.install(2);
  test.plans.activate(Epoch(2));
  test.host.oldest = Epoch(1);
  test.install(3);
  test.install(3);  // over another line, say
  CHECK(test.installed == std::vector<std::uint64_t>{1, 2});
  test.host.said.clear();
  test.run(2 * kMoveWait + kMoveWait / 2);
  CHECK(test.host.said == std::vector<std::string>{"move to 2", "move to 2"});
  test.host.oldest = Epoch(2);
  test.plans.confirm();
  CHECK(test.installed == std::vector<std::uint64_t>{1, 2, 3, 3});
  test.host.said.clear();
  test.run(2 * kMoveWait);
  CHECK(test.host.said.size() <= 1);
}
