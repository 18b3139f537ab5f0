// Groups of an earlier controller: which of them can be planned here, and which are set aside.
#pragma once

#include <functional>

#include "controller/admission.h"
#include "square/status.h"

namespace square::controller {

// Topology and policy may be others than those that the groups were registered under. Finds out of the
// untried ones which can be planned, with as few plans as that takes; the others are set aside, so that they
// are in nobody's way, and the log says which and why. `plan` is given states to plan; the last for which it
// returns OK is what `state` is then. Returns what came of the state as a whole: not OK where it cannot be
// planned without them either; then they stay untried, and nothing has changed.
Status try_adopted(PlanningState& state, const std::function<Status(const PlanningState&)>& plan);

}  // namespace square::controller
