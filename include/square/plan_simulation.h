// A plan as its nodes would carry it out, in virtual time: without processes, namespaces or waiting.
//
// The nodes are those of square/data_plane.h, as they are: blocks, credit, pacing, sums and acknowledgements,
// over links of the scenario's capacities and latencies. What they cost in processors' time is not simulated,
// and what limits a node as a whole only its own pacing keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "square/budget.h"
#include "square/ids.h"
#include "square/plan.h"
#include "square/scenario.h"
#include "square/units.h"

namespace square {

struct PlanSimulationOptions {
  std::uint64_t seed = 1;  // of what members give, and of the order in which nodes work
  // What members' buffers may take together.
  std::size_t memory_bytes = std::size_t{8} << 30U;
  // Of real time.
  Budget budget = {};
};

struct SimulatedCompletion {
  CollectiveId collective;
  Duration time{0};  // from the common start until its last member was done
};

struct PlanSimulation {
  std::vector<SimulatedCompletion> completions;  // in the order of the scenario
};

// So many times what the slowest collective is planned to take, and kLeastSimulatedTime, are more than
// enough.
inline constexpr double kMaxSimulatedSlowness = 20;
inline constexpr Duration kLeastSimulatedTime = std::chrono::seconds(60);

// Every collective once, all begun at the same moment: broadcasts, reduces, all-reduces as planned and around
// a ring. Members have random bytes, of which every one that should arrive is compared; sums are of whole
// numbers, float32 where the size allows it, else uint8. The same seed gives the same times. `plan` is one of
// `scenario`, with streams. Errors: INVALID_ARGUMENT where it is of another scenario; FAILED_PRECONDITION
// without streams, or where a collective has no rate; UNIMPLEMENTED for other operations; RESOURCE_EXHAUSTED
// past memory_bytes; DEADLINE_EXCEEDED naming a collective that does not end; DATA_LOSS where a byte is
// another; CANCELLED and DEADLINE_EXCEEDED by the budget. Blocks for as long as it computes. Thread-safe.
Result<PlanSimulation> simulate_plan(const Scenario& scenario, const Plan& plan,
                                     const PlanSimulationOptions& options = {});

}  // namespace square
