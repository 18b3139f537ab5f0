// Whatever is registered, measured and used, a plan comes: with all groups but those that stand in its way,
// and for these a reason. States are drawn; each is planned by what a controller plans with.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/epoch_planner.h"
#include "seed_step.h"
#include "square/validator.h"

using namespace square;
using namespace square::controller;

namespace {

constexpr int kStates = 2'000 / static_cast<int>(test::kSeedStep);
constexpr int kManyStates = 100'000;

// One planner for all states, as one controller has for all that becomes of its state.
class States {
 public:
  explicit States(std::uint64_t seed) : random_(seed), planner_({}, make_background_plan_source([] {})) {}

  // Demands one after the other, then other uses and other capacities.
  void run() {
    PlanningState state = drawn_state();
    // No controller begins with what cannot be planned before there is any group.
    while (!planner_.make(state.scenario()).is_ok()) state = drawn_state();
    for (int i = pick(1, 4); i > 0; --i) {
      const GroupSpec group = drawn_group(state, i);
      state = registered(std::move(state), group);
    }
    for (int i = pick(1, 2); i > 0; --i) {
      change(state);
      state = planned_again(std::move(state));
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool chance(double part) { return std::bernoulli_distribution(part)(random_); }
  double between_powers(double least, double most) {
    return std::pow(10.0, std::uniform_real_distribution<double>(least, most)(random_));
  }
  // Mostly of one order, as networks are; else of any.
  double capacity() {
    const double drawn = chance(0.8) ? between_powers(6, 11) : between_powers(-9, 15);
    least_bps_ = std::min(least_bps_, drawn);
    return drawn;
  }

  LinkProperties drawn_link() {
    LinkProperties link;
    if (!chance(0.1)) link.capacity_bps = capacity();
    if (chance(0.7)) link.latency = Duration(static_cast<Duration::rep>(between_powers(3, 10)));
    if (chance(0.3)) link.price_usd_per_gb = between_powers(-6, 3);
    if (chance(0.2)) link.capacity_stddev_bps = between_powers(-3, 8);
    link.is_fixed = chance(0.1);
    return link;
  }

  PlanningState drawn_state() {
    Scenario scenario;
    const int nodes = pick(1, 5);
    for (int v = 0; v < nodes; ++v) {
      TopologyNode node{fmt::format("n{}", v)};
      if (chance(0.2)) node.egress_bps = capacity();
      if (chance(0.2)) node.ingress_bps = capacity();
      REQUIRE(scenario.topology.add_node(node).is_ok());
    }
    const double density = chance(0.7) ? 1.0 : 0.6;
    for (int u = 0; u < nodes; ++u) {
      for (int v = 0; v < nodes; ++v) {
        if (u == v || !chance(density)) continue;
        REQUIRE(
            scenario.topology.add_link(fmt::format("n{}", u), fmt::format("n{}", v), drawn_link()).is_ok());
      }
    }
    if (chance(0.3)) scenario.policy.fairness = Fairness::kCollective;
    if (chance(0.2)) scenario.policy.headroom = between_powers(-3, 1);
    if (chance(0.2)) scenario.policy.max_streams = static_cast<std::size_t>(pick(1, 3));
    if (chance(0.2)) scenario.policy.budget_usd_per_hour = between_powers(-3, 6);
    if (chance(0.3)) scenario.policy.coding = chance(0.5) ? Coding::kOff : Coding::kFloat32;
    PlanningState state{"drawn", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
    if (chance(0.5)) state.tenants = {{"t0", between_powers(-4, 4)}};
    REQUIRE(state.set_policy(scenario.policy).is_ok());
    return state;
  }

  GroupSpec drawn_group(const PlanningState& state, int number) {
    GroupSpec group{fmt::format("g{}", number), fmt::format("t{}", pick(0, 2)), {}, {}};
    for (std::size_t v = 0; v < state.topology.node_count(); ++v) {
      if (v == 0 || chance(0.7)) group.nodes.push_back(fmt::format("n{}", v));
    }
    if (chance(0.2)) group.redundancy = static_cast<std::uint32_t>(pick(1, 4));
    for (int i = pick(1, 3); i > 0; --i) {
      GroupCollective collective;
      collective.op = static_cast<CollectiveOp>(pick(0, static_cast<int>(CollectiveOp::kScatter)));
      collective.root = Rank(static_cast<std::uint32_t>(pick(0, static_cast<int>(group.nodes.size()) - 1)));
      if (chance(0.5)) collective.weight = chance(0.5) ? between_powers(-300, 300) : between_powers(-4, 4);
      if (chance(0.8)) collective.size_bytes = std::uint64_t{1} << static_cast<unsigned>(pick(0, 60));
      collective.channel = static_cast<std::uint32_t>(i);
      group.collectives.push_back(collective);
    }
    return group;
  }

  PlanningState registered(PlanningState state, const GroupSpec& group) {
    const Demand demand = group;
    Admission admission = admit(state, {&demand}, false, maker());
    const Verdict& verdict = admission.verdicts.front();
    if (!verdict.status.is_ok()) {
      CHECK(verdict.status.message().size() > 10);
      CHECK_MESSAGE(verdict.status.code() != StatusCode::kCancelled, verdict.status.to_string());
      CHECK_FALSE(admission.state.registry.groups().contains(group.name));
      return state;
    }
    check(admission);
    return std::move(admission.state);
  }

  void change(PlanningState& state) {
    for (const auto& [name, group] : state.registry.groups()) {
      for (const RegisteredCollective& collective : group->collectives)
        if (chance(0.5)) state.demand[collective.id] = chance(0.5) ? 1.0 / 256 : between_powers(-2.4, 0);
    }
    for (std::size_t i = 0; i < state.topology.link_count(); ++i) {
      const TopologyLink& link = state.topology.link(LinkId(static_cast<std::uint32_t>(i)));
      if (chance(0.3)) state.measured.planned[{link.from, link.to}] = capacity();
    }
  }

  // Groups that are set aside stand in the way of the others, each of them.
  PlanningState planned_again(PlanningState state) {
    Admission admission = admit(state, {}, true, maker());
    REQUIRE_MESSAGE(admission.replan.is_ok(), admission.replan.to_string());
    if (!state.registry.is_empty()) check(admission);
    for (const auto& [name, group] : admission.state.registry.groups()) {
      if (group->unplannable.is_ok()) continue;
      ++set_aside_;
      INFO(name, ": ", group->unplannable.to_string());
      CHECK(group->unplannable.message().size() > 10);
      PlanningState with = admission.state;
      with.registry.set_aside(name, Status::ok());
      CHECK_FALSE(planner_.make(with.scenario()).is_ok());
    }
    return std::move(admission.state);
  }

  void check(const Admission& admission) {
    if (admission.next == nullptr) return;
    const Plan& plan = *admission.next->plan;
    CHECK(validate(plan).is_ok());
    planner_.note_published(*admission.next, admission.is_whole);
    for (const auto& [name, group] : admission.state.registry.groups()) {
      if (!group->unplannable.is_ok()) continue;
      for (const RegisteredCollective& collective : group->collectives) {
        const PlanCollective* const planned = plan.find_collective(collective.id);
        REQUIRE_MESSAGE(planned != nullptr, name);
        // What less than a bit a second may pass has no rate that numbers keep apart from none.
        CHECK((planned->rate_bps > 0 || least_bps_ < 1.0));
      }
    }
    ++plans_;
  }

  PlanMaker maker() {
    return [this](const Scenario& scenario) { return planner_.make(scenario); };
  }

  std::mt19937_64 random_;
  EpochPlanner planner_;
  double least_bps_ = kUnlimited;

 public:
  int plans_ = 0;
  int set_aside_ = 0;
};

}  // namespace

TEST_CASE("whatever is registered, measured and used, a plan comes") {
  const char* const given = std::getenv("SQUARE_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261130;
  const int count = given != nullptr ? 1 : std::getenv("SQUARE_LONG") != nullptr ? kManyStates : kStates;
  int plans = 0;
  int set_aside = 0;
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(count); ++seed) {
    CAPTURE(seed);
    States states(seed);
    states.run();
    plans += states.plans_;
    set_aside += states.set_aside_;
  }
  MESSAGE(fmt::format("{} states, {} plans, {} groups set aside", count, plans, set_aside));
  CHECK((given != nullptr || plans > count));
}
