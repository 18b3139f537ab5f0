// An all-reduce around a ring, as src/collective/ring_all_reduce.h makes it of unicasts to the next rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ring_layout.h"
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
  void introduce(SimulatedNodes& nodes) override;

 private:
  // Segments under way in each direction.
  static constexpr std::size_t kWindow = 16;
  // What has come, and is neither added nor in its place yet.
  struct Segment {
    std::vector<std::byte> bytes;
    bool has_come = false;
  };
  struct Member {
    RingLayout layout;
    std::size_t sent = 0;          // begun
    std::size_t acknowledged = 0;  // of those, all before this one
    std::size_t asked = 0;         // receives that are begun
    std::size_t taken = 0;         // of those, added or in their place
    std::array<bool, kWindow> is_acknowledged{};
    std::array<Segment, kWindow> window{};
    bool is_over = false;
  };

  void call(SimulatedNodes& nodes, std::size_t rank) override { go_on(nodes, rank); }
  void go_on(SimulatedNodes& nodes, std::size_t rank);
  void send(SimulatedNodes& nodes, std::size_t rank, std::size_t transfer);
  void receive(SimulatedNodes& nodes, std::size_t rank, std::size_t transfer);
  // Adds what has come, or puts it in its place, as far as that is free.
  void take(std::size_t rank);
  // A part of the rank's work is over.
  void note(SimulatedNodes& nodes, std::size_t rank, const Status& outcome);

  const std::vector<RingHop> hops_;
  std::vector<Member> members_;
};

}  // namespace square::simulation
