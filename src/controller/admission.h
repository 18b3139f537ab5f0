// Which of several demands can be planned, together with what is planned already.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/demand_meter.h"
#include "controller/detours.h"
#include "controller/group_registry.h"
#include "controller/measurements.h"
#include "controller/plan_parts.h"
#include "controller/session_numbers.h"
#include "square/plan.h"
#include "square/scenario.h"

namespace square::controller {

// A plan as it is, and what nodes are sent of it.
struct PublishedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const PlanParts> parts;
  // The numbers given once it is published: those of plans that nobody had are given again.
  std::shared_ptr<const SessionNumbers> numbers{};
  // Made because somebody is away, or a link is broken: what runs under older plans moves to it at once.
  bool moves = false;
};
using PublishedPlanPtr = std::shared_ptr<const PublishedPlan>;

// Everything that a plan is made from.
struct PlanningState {
  std::string name;
  Topology topology;
  PolicySpec policy;  // but for the links to avoid
  std::vector<TenantSpec> tenants;
  GroupRegistry registry;
  // By their ends: when the topology changes, nodes keep their ids, links do not.
  std::vector<std::pair<NodeId, NodeId>> avoid_links;
  // What collectives have of their weights, by their use; 1 where nothing is said.
  DemandWeights demand = {};
  MeasuredCapacities measured = {};
  // Nodes that have been there and are not.
  std::set<std::string> away = {};
  // Of these the ones that left in order: their groups go on with what they have done their part of.
  std::set<std::string> departed = {};
  // Nodes that are connected, and that their neighbours do not hear: as if they were away.
  std::set<std::string> silent = {};
  // Nodes that are connected and are not to relay for others: they lose blocks, or others cannot reach them.
  std::set<std::string> unfit = {};
  // Links between nodes that are there, by their ends.
  std::set<LinkName> broken = {};
  // Counts how often topology or policy were set.
  std::uint32_t revision = 0;

  // Its ids are of the topology as it is now. INVALID_ARGUMENT for an unknown name or link.
  Status set_policy(const PolicySpec& wanted);
  [[nodiscard]] Scenario scenario() const;
  // Nodes that are away, silent or unfit and members of no group, which have no part in any plan; and those
  // that are members, and only do not relay for others, under policies that know such nodes.
  [[nodiscard]] std::set<std::string> left_out() const;
  [[nodiscard]] std::set<std::string> no_relays() const;
  // There is something that is planned around where that can be.
  [[nodiscard]] bool avoids() const {
    return !away.empty() || !silent.empty() || !unfit.empty() || !broken.empty();
  }
  // Of the broken links those that collectives can do without.
  [[nodiscard]] std::set<LinkName> avoided_links() const;
  // As scenario(), but with broken links, or with all nodes and links: for want of another way.
  [[nodiscard]] Scenario scenario_over_broken_links() const;
  [[nodiscard]] Scenario whole_scenario() const { return scenario_over(topology); }

 private:
  [[nodiscard]] std::set<std::string> missing() const;
  [[nodiscard]] Topology overlay() const;
  [[nodiscard]] Scenario scenario_over(Topology overlay) const;
  [[nodiscard]] Scenario without_relays(Scenario scenario) const;
};

using Demand = std::variant<GroupSpec, PolicySpec, Topology>;

struct Verdict {
  Status status;
  std::vector<CollectiveId> collectives;  // of a group
  std::uint64_t group = 0;                // its number
  std::string keys{};                     // its key, wrapped for its members
};

struct Admission {
  PlanningState state;
  // Null if what is planned already serves all demands that were admitted.
  PublishedPlanPtr next;
  bool is_whole = false;          // it leads over what is to be avoided, for want of another way
  std::vector<Verdict> verdicts;  // by demand
  Status replan;                  // what came of `replan` where no demand was admitted
  bool over_broken = false;       // it avoids nodes, and leads over broken links

  [[nodiscard]] bool avoids_links() const { return !is_whole && !over_broken; }
};

using PlanMaker = std::function<Result<PublishedPlanPtr>(const Scenario&)>;

// Takes as many demands as can be planned: all, or where that fails each half by itself, so that
// one which cannot be planned is refused alone. `replan` asks for a new plan whatever the demands.
// Blocks while `make` does. A state without nodes is not planned.
Admission admit(const PlanningState& state, const std::vector<const Demand*>& demands, bool replan,
                const PlanMaker& make);

}  // namespace square::controller
