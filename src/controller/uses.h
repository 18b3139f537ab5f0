// From what nodes say that collectives carried to the weights that plans give them.
#pragma once

#include <string>
#include <vector>

#include "base/seldom.h"
#include "controller/admission.h"
#include "controller/demand_meter.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// What a node says that its members gave to the plan's collectives. Of those that it has no part in it is not
// believed, and named in `told`.
void note_uses(const std::string& node, const v1::Heartbeat& beat, const Plan& plan, DemandMeter& meter,
               TimePoint now, Seldom& told);

// Groups that are used more or less than before get another part of their tenant's share. Returns whether
// that is so: a new plan is due. It is left for another time where all that is asked for is a part in groups
// that are planned already: who joins those needs no plan, and is not to wait for one.
bool absorb_uses(DemandMeter& meter, PlanningState& state, const std::vector<const Demand*>& demands,
                 TimePoint now);

}  // namespace square::controller
