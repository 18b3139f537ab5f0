// The policy "exact" as the planner sees it.
#pragma once

#include <memory>

#include "planning/policy.h"

namespace square::planning {

std::unique_ptr<Policy> make_exact();

}  // namespace square::planning
