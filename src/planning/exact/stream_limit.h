// At most so many streams a session, and what plans say beside them.
#pragma once

#include "planning/exact/solution.h"

namespace square::planning {

// Streams as paths, for the groups of whose rates the solution shows no conceptual flows: that is then what
// the program is said to allow, where it came from cuts a little less than those. Precondition: their streams
// are trees.
void show_flows(const Instance& instance, ExactSolution& solution);

// No conceptual flows: what the streams carry is all that is said to be allowed.
void claim_what_is_carried(const Instance& instance, ExactSolution& solution);

// As many streams as the policy allows, if it says so; what more would carry stays what the program allows.
// Errors: as carry_by_few().
Status limit_streams(const Instance& instance, ExactSolution& solution);

}  // namespace square::planning
