// The nodes of a plan on a network in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "square/data_plane.h"
#include "square/plan.h"
#include "square/simulation.h"
#include "square/topology.h"

namespace square::simulation {

// Single-threaded.
class SimulatedNodes {
 public:
  // `plan` has the nodes of the topology.
  SimulatedNodes(const Topology& topology, std::shared_ptr<const Plan> plan, std::uint64_t seed);
  // Nodes go first, the simulation last.
  ~SimulatedNodes();
  SimulatedNodes(const SimulatedNodes&) = delete;
  SimulatedNodes& operator=(const SimulatedNodes&) = delete;

  // Their links come up, and the plan is active on all. Errors: INTERNAL where a node does not take it.
  Status begin();

  // The members of the collective by rank; a node is a member once.
  void set_members(CollectiveId collective, const std::vector<NodeId>& nodes);
  DataPlane& node(NodeId node) { return *hosts_[node.index()].node; }
  [[nodiscard]] TimePoint now() const { return simulation_.clock().now(); }
  // Until `finished`, for so long at most, obeying the budget. Returns finished().
  bool run(const std::function<bool()>& finished, Duration limit);

 private:
  struct Host {
    std::unique_ptr<Executor> executor;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<DataPlane> node;
  };

  const std::shared_ptr<const Plan> plan_;
  Simulation simulation_;
  std::vector<Host> hosts_;  // by NodeId
};

}  // namespace square::simulation
