// One collective of a simulation: its members, what they give, and whether all is there in the end.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "simulation/payload.h"
#include "simulation/simulated_nodes.h"
#include "square/scenario.h"

namespace square::simulation {

// Single-threaded. Outlives the nodes, which write to its members' buffers.
class SimulatedCollective {
 public:
  SimulatedCollective(const CollectiveSpec& spec, std::uint64_t seed);
  virtual ~SimulatedCollective() = default;
  SimulatedCollective(const SimulatedCollective&) = delete;
  SimulatedCollective& operator=(const SimulatedCollective&) = delete;

  [[nodiscard]] const CollectiveSpec& spec() const { return spec_; }
  // Nodes learn who its members are.
  virtual void introduce(SimulatedNodes& nodes) = 0;
  // All members call it, each within so long.
  void begin(SimulatedNodes& nodes, Duration timeout);
  [[nodiscard]] bool is_over() const { return members_left_ == 0 || !failure_.is_ok(); }
  // Of a member; or DATA_LOSS where a result is another than it should be. Precondition: it is over.
  [[nodiscard]] Status check() const;
  // Precondition: it is over, well.
  [[nodiscard]] Duration time() const { return ended_ - begun_; }

 protected:
  [[nodiscard]] bool adds() const { return spec_.op != CollectiveOp::kBroadcast; }
  [[nodiscard]] bool is_root(std::size_t rank) const { return spec_.members[rank] == spec_.root; }
  std::span<std::byte> buffer(std::size_t rank) { return buffers_[rank]; }
  [[nodiscard]] Duration timeout() const { return timeout_; }
  virtual void call(SimulatedNodes& nodes, std::size_t rank) = 0;
  void note_done(const SimulatedNodes& nodes, const Status& outcome);

 private:
  [[nodiscard]] bool has_result(std::size_t rank) const;

  const CollectiveSpec spec_;
  const Payload payload_;
  std::vector<std::vector<std::byte>> buffers_;  // by rank; results take the place of what was given
  std::size_t members_left_ = 0;
  Status failure_;
  Duration timeout_{0};
  TimePoint begun_;
  TimePoint ended_;
};

// A broadcast, a reduce or a planned all-reduce: one call of each member.
class OneCallCollective final : public SimulatedCollective {
 public:
  using SimulatedCollective::SimulatedCollective;
  void introduce(SimulatedNodes& nodes) override;

 private:
  void call(SimulatedNodes& nodes, std::size_t rank) override;
};

}  // namespace square::simulation
