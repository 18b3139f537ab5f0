#include "simulation/simulated_nodes.h"

#include <utility>

#include "base/check.h"
#include "base/spending.h"

namespace square::simulation {
namespace {

// For links to come up; they are there before anybody begins.
constexpr Duration kPrelude = std::chrono::seconds(2);

}  // namespace

SimulatedNodes::SimulatedNodes(const Topology& topology, std::shared_ptr<const Plan> plan, std::uint64_t seed)
    : plan_(std::move(plan)), simulation_(seed), hosts_(plan_->nodes.size()) {
  for (const PlanLink& link : plan_->links) {
    LinkConditions conditions;
    conditions.delay = link.latency;
    conditions.capacity_bps = link.capacity_bps;
    simulation_.set_conditions(topology.node(link.from).name, topology.node(link.to).name, conditions);
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    DataPlaneOptions options;
    options.name = plan_->nodes[i].name;
    host.executor = simulation_.make_executor(options.name);
    host.transport = simulation_.make_transport(options.name);
    host.node = std::make_unique<DataPlane>(options, simulation_.clock(), *host.transport, *host.executor);
  }
}

SimulatedNodes::~SimulatedNodes() {
  for (const Host& host : hosts_) host.transport->stop();
}

Status SimulatedNodes::begin() {
  for (const Host& host : hosts_) SQUARE_RETURN_IF_ERROR(host.node->start());
  for (const Host& host : hosts_) {
    for (const Host& other : hosts_) {
      if (&other != &host) host.node->set_address(other.node->name(), other.transport->address());
    }
  }
  std::size_t installed = 0;
  for (const Host& host : hosts_) host.node->install_plan(plan_, [&](Epoch) { ++installed; });
  if (!run([&] { return installed == hosts_.size(); }, kPrelude))
    return internal_error("a simulated node did not install the plan");
  for (const Host& host : hosts_) host.node->activate_plan(plan_->epoch);
  run([] { return false; }, kPrelude);
  return {};
}

void SimulatedNodes::set_members(CollectiveId collective, const std::vector<NodeId>& nodes) {
  for (std::uint32_t rank = 0; rank < nodes.size(); ++rank)
    node(nodes[rank])
        .set_members(collective, "collective " + std::to_string(collective.value()), {Rank(rank)});
}

bool SimulatedNodes::run(const std::function<bool()>& finished, Duration limit) {
  const auto looked = [&] {
    look_at_budget();
    return finished();
  };
  return simulation_.run_until(looked, simulation_.clock().now() + limit);
}

}  // namespace square::simulation
