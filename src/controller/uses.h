// From what nodes say that collectives carried to the weights that plans give them.
#pragma once

#include <vector>

#include "controller/admission.h"
#include "controller/demand_meter.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// What the members of the plan's collectives say that they have sent.
void note_uses(const v1::Heartbeat& beat, const Plan& plan, DemandMeter& meter, TimePoint now);

// Groups that are used more or less than before get another part of their tenant's share. Returns whether
// that is so: a new plan is due. It is left for another time where all that is asked for is a part in groups
// that are planned already: who joins those needs no plan, and is not to wait for one.
bool absorb_uses(DemandMeter& meter, PlanningState& state, const std::vector<const Demand*>& demands,
                 TimePoint now);

}  // namespace square::controller
