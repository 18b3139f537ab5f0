#include "square/plan_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/plan/lifeline.h"
#include "base/spending.h"
#include "simulation/simulated_collective.h"
#include "simulation/simulated_nodes.h"
#include "simulation/simulated_ring.h"

namespace square {
namespace {

using simulation::SimulatedCollective;
using simulation::SimulatedNodes;

bool has_nodes_of(const Plan& plan, const Topology& topology) {
  if (plan.nodes.size() != topology.node_count()) return false;
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].name != topology.node(NodeId(i)).name) return false;
  }
  return true;
}

Status check_plan(const Scenario& scenario, const Plan& plan) {
  if (!plan.realised) return failed_precondition("the plan has rates only; make it with streams");
  if (!has_nodes_of(plan, scenario.topology))
    return invalid_argument("the plan is of another overlay than the scenario");
  for (const CollectiveSpec& spec : scenario.collectives) {
    const PlanCollective* const planned = plan.find_collective(spec.id);
    if (planned == nullptr || planned->op != spec.op || planned->size_bytes != spec.size_bytes)
      return invalid_argument(
          fmt::format("the plan has no collective {} as the scenario has it", spec.id.value()));
    const bool is_known = spec.op == CollectiveOp::kBroadcast || spec.op == CollectiveOp::kReduce ||
                          spec.op == CollectiveOp::kAllReduce;
    if (!is_known)
      return unimplemented(
          fmt::format("collective {} is neither a broadcast nor a reduce nor an all-reduce, and "
                      "no others are simulated",
                      spec.id.value()));
    if (!(planned->rate_bps > 0))
      return failed_precondition(fmt::format("collective {} has no rate", spec.id.value()));
  }
  return {};
}

Status check_memory(const Scenario& scenario, std::size_t limit) {
  std::size_t left = limit;
  for (const CollectiveSpec& spec : scenario.collectives) {
    for (std::size_t rank = 0; rank < spec.members.size(); ++rank) {
      if (spec.size_bytes > left)
        return resource_exhausted(
            fmt::format("the members' buffers take more than {} bytes; scale the sizes down", limit));
      left -= spec.size_bytes;
    }
  }
  return {};
}

Duration time_limit(const Plan& plan) {
  double slowest = 0;
  for (const PlanCollective& collective : plan.collectives)
    slowest = std::max(slowest, collective.completion_seconds);
  return std::max(kLeastSimulatedTime, from_seconds(kMaxSimulatedSlowness * slowest));
}

std::vector<std::unique_ptr<SimulatedCollective>> collectives_of(const Scenario& scenario,
                                                                 const simulation::HoppingPlan& hopping,
                                                                 std::uint64_t seed) {
  std::vector<std::unique_ptr<SimulatedCollective>> made;
  for (const CollectiveSpec& spec : scenario.collectives) {
    std::vector<simulation::RingHop> hops;
    std::ranges::copy_if(hopping.hops, std::back_inserter(hops),
                         [&](const simulation::RingHop& hop) { return hop.ring == spec.id; });
    if (hops.empty()) {
      made.push_back(std::make_unique<simulation::OneCallCollective>(spec, seed));
    } else {
      made.push_back(std::make_unique<simulation::SimulatedRing>(spec, seed, std::move(hops)));
    }
  }
  return made;
}

Result<PlanSimulation> simulate(const Scenario& scenario, const Plan& plan, std::uint64_t seed) {
  const Phase phase("simulating a plan");
  const simulation::HoppingPlan hopping = simulation::with_hops(plan, scenario.collectives);
  const auto collectives = collectives_of(scenario, hopping, seed);
  SimulatedNodes nodes(scenario.topology, with_lifelines(std::make_shared<const Plan>(hopping.plan)), seed);
  SQUARE_RETURN_IF_ERROR(nodes.begin());
  for (const auto& collective : collectives) collective->introduce(nodes);
  const Duration limit = time_limit(plan);
  for (const auto& collective : collectives) collective->begin(nodes, limit);
  // Their own time limits end them.
  nodes.run([&] { return std::ranges::all_of(collectives, &SimulatedCollective::is_over); }, 2 * limit);
  PlanSimulation simulated;
  for (const auto& collective : collectives) {
    if (!collective->is_over())
      return deadline_exceeded(fmt::format("collective {} does not end", collective->spec().id.value()));
    SQUARE_RETURN_IF_ERROR(collective->check());
    simulated.completions.push_back({collective->spec().id, collective->time()});
  }
  return simulated;
}

}  // namespace

Result<PlanSimulation> simulate_plan(const Scenario& scenario, const Plan& plan,
                                     const PlanSimulationOptions& options) {
  SQUARE_RETURN_IF_ERROR(check_plan(scenario, plan));
  SQUARE_RETURN_IF_ERROR(check_memory(scenario, options.memory_bytes));
  return spend(options.budget, [&] { return simulate(scenario, plan, options.seed); });
}

}  // namespace square
