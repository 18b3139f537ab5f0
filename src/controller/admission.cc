#include "controller/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/weight.h"
#include "controller/overlay_change.h"
#include "controller/trial.h"
#include "square/planner.h"

namespace square::controller {
namespace {

constexpr std::string_view kPolicyThatAvoids = "exact";

// Whether the failure comes from what is to be planned, and not from a planner that stops or is short of
// time.
bool is_of_the_state(const Status& planned) {
  const StatusCode code = planned.code();
  return !planned.is_ok() && code != StatusCode::kCancelled && code != StatusCode::kUnavailable &&
         code != StatusCode::kDeadlineExceeded;
}

struct Application {
  PlanningState& state;
  Verdict& verdict;

  // Each returns whether a new plan is due, and leaves the state alone after an error.
  bool operator()(const GroupSpec& group) {
    auto registered = state.registry.add(group, state.topology);
    if (!registered.is_ok()) {
      verdict.status = registered.status();
      return false;
    }
    verdict.collectives = std::move(registered->collectives);
    verdict.group = registered->number;
    verdict.keys = registered->keys;
    return registered->changed;
  }

  bool operator()(const PolicySpec& policy) {
    verdict.status = state.set_policy(policy);
    if (verdict.status.is_ok()) note_change();
    return verdict.status.is_ok();
  }

  bool operator()(const Topology& topology) {
    auto replaced = replace_topology(state.topology, topology);
    if (!replaced.is_ok()) {
      verdict.status = replaced.status();
      return false;
    }
    state.topology = std::move(*replaced);
    note_change();
    return true;
  }

  void note_change() {
    ++state.revision;
    state.registry.try_again();
  }
};

class Bisection {
 public:
  Bisection(Admission& admission, const std::vector<const Demand*>& demands, bool replan,
            const PlanMaker& make)
      : admission_(admission), demands_(demands), replan_(replan), make_(make) {}

  void run() {
    try_those_adopted();
    const std::size_t count = demands_.size();
    if (!admit_together(0, count)) plan_again() ? admit_range(0, count) : divide(0, count);
    plan_again();
    try_those_adopted();
  }

 private:
  void try_those_adopted() {
    PlanningState& state = admission_.state;
    if (state.topology.node_count() == 0 || state.registry.untried().empty()) return;
    (void)try_adopted(state, [this](const PlanningState& trial) { return plan(trial); });
  }

  // What was planned before, if that is asked for and has not been done with a demand on top. Groups that
  // stand in the way are set aside: returns whether there are any.
  bool plan_again() {
    if (!std::exchange(replan_, false)) return false;
    PlanningState& state = admission_.state;
    const Status planned = plan(state);
    admission_.replan = planned;
    if (!is_of_the_state(planned)) return false;
    admission_.replan =
        set_aside_unplannable(state, planned, [this](const PlanningState& trial) { return plan(trial); });
    return admission_.replan.is_ok();
  }

  // Depth: the logarithm of the number of demands.
  void admit_range(std::size_t first, std::size_t last) {
    if (!admit_together(first, last)) divide(first, last);
  }

  // Of demands that cannot be planned together.
  void divide(std::size_t first, std::size_t last) {
    if (last - first == 1) return;  // it is refused
    const std::size_t middle = first + (last - first) / 2;
    admit_range(first, middle);
    admit_range(middle, last);
  }

  // Returns whether there is a plan with all of them that may be planned; after an error nothing has changed
  // but the verdict on a single one.
  bool admit_together(std::size_t first, std::size_t last) {
    PlanningState trial = admission_.state;
    bool due = false;
    for (std::size_t i = first; i < last; ++i) {
      admission_.verdicts[i] = {};
      due |= std::visit(Application{trial, admission_.verdicts[i]}, *demands_[i]);
    }
    const Status planned = due ? plan(trial) : Status::ok();
    if (planned.is_ok()) {
      admission_.state = std::move(trial);
    } else if (last - first == 1) {
      admission_.verdicts[first] = {planned, {}, 0};
    }
    return planned.is_ok();
  }

  Status plan(const PlanningState& state) {
    if (state.topology.node_count() == 0) return {};
    auto made = make_(state.scenario());
    bool is_whole = !made.is_ok() && state.avoids();
    // A broken link may carry something yet; a node that has left passes nothing on.
    const bool has_both = !state.departed.empty() && !state.broken.empty();
    if (is_whole && has_both) made = make_(state.scenario_over_broken_links());
    const bool over_broken = is_whole && made.is_ok();
    is_whole = is_whole && !over_broken;
    if (is_whole) made = make_(state.whole_scenario());
    if (!made.is_ok()) return made.status();
    admission_.is_whole = is_whole;
    admission_.over_broken = over_broken;
    admission_.next = std::move(*made);
    admission_.replan = Status::ok();
    replan_ = false;
    return {};
  }

  Admission& admission_;
  const std::vector<const Demand*>& demands_;
  bool replan_;
  const PlanMaker& make_;
};

}  // namespace

Status PlanningState::set_policy(const PolicySpec& wanted) {
  const auto names = policy_names();
  if (std::find(names.begin(), names.end(), wanted.name) == names.end()) {
    return invalid_argument(
        fmt::format("there is no policy \"{}\"; known are {}", wanted.name, fmt::join(names, ", ")));
  }
  std::vector<std::pair<NodeId, NodeId>> ends;
  for (const LinkId id : wanted.avoid_links) {
    if (id.index() >= topology.link_count()) {
      return invalid_argument(fmt::format("policy.avoid_links: {} is not a link: the topology has {}",
                                          id.value(), topology.link_count()));
    }
    ends.emplace_back(topology.link(id).from, topology.link(id).to);
  }
  policy = wanted;
  policy.avoid_links.clear();
  avoid_links = std::move(ends);
  return {};
}

std::set<std::string> PlanningState::left_out() const {
  std::set<std::string> nodes;
  for (const std::string& node : missing()) {
    if (!registry.uses(node)) nodes.insert(node);
  }
  return nodes;
}

std::set<std::string> PlanningState::no_relays() const {
  std::set<std::string> nodes;
  if (policy.name != kPolicyThatAvoids) return nodes;
  for (const std::string& node : missing()) {
    const bool may_relay = registry.has_group_without(node) || departed.contains(node);
    if (topology.find_node(node) && registry.uses(node) && may_relay) nodes.insert(node);
  }
  return nodes;
}

std::set<std::string> PlanningState::missing() const {
  std::set<std::string> nodes = away;
  nodes.insert(silent.begin(), silent.end());
  nodes.insert(unfit.begin(), unfit.end());
  return nodes;
}

// Without the nodes that are left out.
Topology PlanningState::overlay() const {
  const std::set<std::string> nodes = left_out();
  if (nodes.empty()) return topology;
  Result<Topology> rest = remesh(topology, {}, nodes);
  return rest.is_ok() ? *std::move(rest) : topology;
}

std::set<LinkName> PlanningState::avoided_links() const {
  return broken.empty() ? std::set<LinkName>() : detoured(scenario_over(overlay()), broken);
}

Scenario PlanningState::scenario() const {
  const std::set<LinkName> links = avoided_links();
  return without_relays(scenario_over(links.empty() ? overlay() : without_links(overlay(), links)));
}

Scenario PlanningState::scenario_over_broken_links() const {
  return without_relays(scenario_over(overlay()));
}

Scenario PlanningState::without_relays(Scenario scenario) const {
  std::vector<NodeId>& avoided = scenario.policy.avoid_nodes;
  for (const std::string& node : no_relays()) {
    const NodeId id = *topology.find_node(node);
    if (std::ranges::find(avoided, id) == avoided.end()) avoided.push_back(id);
  }
  return scenario;
}

Scenario PlanningState::scenario_over(Topology overlay) const {
  Scenario scenario{name, std::move(overlay), policy, tenants, {}};
  for (const auto& [from, to] : avoid_links) {
    if (const auto link = scenario.topology.find_link(from, to)) scenario.policy.avoid_links.push_back(*link);
  }
  measured.apply(scenario.topology);
  registry.fill(scenario);
  std::map<std::string_view, double> largest;  // of each tenant
  for (const CollectiveSpec& collective : scenario.collectives) {
    double& weight = largest[collective.tenant];
    weight = std::max(weight, collective.weight);
  }
  for (CollectiveSpec& collective : scenario.collectives) {
    const auto part = demand.find(collective.id);
    const double used = part == demand.end() ? 1.0 : part->second;
    const double least = std::max(kLeastWeight, kLeastShare * largest[collective.tenant]);
    collective.weight = std::max(least, used * collective.weight);
  }
  return scenario;
}

Admission admit(const PlanningState& state, const std::vector<const Demand*>& demands, bool replan,
                const PlanMaker& make) {
  Admission admission{state, nullptr, false, std::vector<Verdict>(demands.size()), {}};
  Bisection(admission, demands, replan, make).run();
  return admission;
}

}  // namespace square::controller
