// Collectives that a new plan leaves as they are, because a member cannot install the new plan.
#pragma once

#include <memory>
#include <set>

#include "square/ids.h"
#include "square/plan.h"

namespace square::controller {

class PlanParts;

// `collectives` stay as `parts` has them, whatever the next plan says of them. No parts: none stay.
struct KeptWays {
  std::shared_ptr<const PlanParts> parts{};
  std::set<CollectiveId> collectives{};
};

// Whether the next plan can leave a collective as the plan `before` has it: streams are told by the numbers
// of nodes.
bool can_keep(const Plan& before, const Plan& next);

// `plan` with the sessions that these collectives have in `kept`. A collective that one of the two does not
// have is not changed.
std::shared_ptr<const Plan> with_kept(const std::shared_ptr<const Plan>& plan, const KeptWays& kept);

}  // namespace square::controller
