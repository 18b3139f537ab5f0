// An all-reduce around a ring: the steps that programs have, over simulated nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "simulation/simulated_collective.h"

namespace square::simulation {

// The plan that its nodes install: each ring's unicasts, which it has as one collective, are one each,
// numbered from the first that is free. What they are is in `hops`, by ring in the order of the plan, then by
// rank.
struct RingHop {
  CollectiveId ring;
  CollectiveId hop;
  NodeId from;
  NodeId to;
};
struct HoppingPlan {
  Plan plan;
  std::vector<RingHop> hops;
};
HoppingPlan with_hops(const Plan& plan, const std::vector<CollectiveSpec>& collectives);

class SimulatedRing final : public SimulatedCollective {
 public:
  // `hops` are the ring's, that of rank r the r-th. Precondition: two members at least.
  SimulatedRing(const CollectiveSpec& spec, std::uint64_t seed, std::vector<RingHop> hops);
  ~SimulatedRing() override;
  void introduce(SimulatedNodes& nodes) override;

 private:
  class Member;
  void call(SimulatedNodes& nodes, std::size_t rank) override;

  const std::vector<RingHop> hops_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace square::simulation
