// The max-flow method, where it applies.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/instance.h"
#include "planning/exact/spanning.h"

namespace square::planning {

// Rates and levels of the instance, by group, if every session reaches all nodes, all run
// the same way, and nothing but capacities limits them (a node limit counts copies, so it
// is not a cut). Nothing otherwise. Errors: INTERNAL from solve_spanning().
Result<std::optional<SpanningAnswer>> spanning_rates(const Instance& instance);

}  // namespace square::planning
