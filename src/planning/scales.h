// Figures of a scenario that are too many orders of magnitude apart to be planned together.
#pragma once

#include <optional>

#include "square/scenario.h"

namespace square::planning {

// A link that carries less than this part of the fastest one carries nothing that can be measured.
inline constexpr double kNothingMeasurable = 1e-12;

// The same scenario with such links avoided; nothing if there are none.
std::optional<Scenario> without_unmeasurable(const Scenario& scenario);

// INVALID_ARGUMENT with the names of the two links, nodes or tenants whose capacities, limits or weights are
// furthest apart, if that is too far; otherwise `status`, which planning the scenario ended with.
Status with_scales(const Scenario& scenario, const Status& status);

// Whether planning the scenario ended with `status` because a solver could not do it, not because nobody can.
bool is_out_of_reach(const Scenario& scenario, const Status& status);

}  // namespace square::planning
