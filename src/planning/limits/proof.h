// The sum that proves a level.
#pragma once

#include "planning/limits/reading.h"

namespace square::planning {

// `part_lengths`: D_c of what the level's duals prove, by position of the collective.
LimitProof proof_of(const PlanReading& reading, std::size_t level, const Lengths& lengths,
                    const std::vector<double>& part_lengths);

// No plan gives this collective more while the others keep their rates.
double bound_by(const LimitProof& proof, CollectiveId collective);

}  // namespace square::planning
