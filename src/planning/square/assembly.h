// From allocations to a Plan with its sums and its certificate.
#pragma once

#include <string_view>
#include <vector>

#include "planning/square/shots.h"
#include "square/plan.h"

namespace square::planning {

// Everything but solve_seconds. Errors: INTERNAL from the solver, naming the session.
Result<Plan> assemble(const Problem& problem, const ShotsAnswer& shots, std::string_view policy);

}  // namespace square::planning
