// Weights of tenants, groups and collectives: what they have of scarce capacity, relative to one another.
#pragma once

#include "square/status.h"

namespace square {

// Two tenants of the same weight can then be eight orders of magnitude apart: planners compare nine.
inline constexpr double kLeastWeight = 1e-4;
inline constexpr double kMostWeight = 1e4;
// A collective counts for this part of its tenant's heaviest one at least, whatever it asks for and uses.
inline constexpr double kLeastShare = 1e-4;

// INVALID_ARGUMENT for one that is out of these bounds.
Status check_weight(double weight);

}  // namespace square
