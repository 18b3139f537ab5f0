// Max-min fair rates of many unicasts: by pairs of nodes, not by sessions.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/proof.h"
#include "planning/exact/streams.h"

namespace square::planning {

struct UnicastsAnswer {
  std::vector<double> rate;  // by group
  std::vector<ProvenLevel> levels;
  Carried carried;
};

// Where all sessions have one member to reach, and may use the same links: lexicographic max-min by a program
// with one row for a link and one for a pair of nodes, however many sessions go between them; one on the
// level and one for each way that is not the link between the two: what does not go round goes straight. Ways
// are found by shortest paths under the duals, those of one source at once. Nothing for other sessions, with
// bounds on latency, redundancy, or a budget. Errors: as IncrementalProgram::solve(), RESOURCE_EXHAUSTED
// past kMaxUnicastRounds, DEADLINE_EXCEEDED after the instance's. Blocks; thread-safe.
Result<std::optional<UnicastsAnswer>> plan_unicasts(const Instance& instance);

inline constexpr int kMaxUnicastRounds = 2'000;  // a level

}  // namespace square::planning
