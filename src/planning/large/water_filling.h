// Rates over a mixture of ways as it is.
#pragma once

#include <vector>

#include "planning/exact/instance.h"
#include "planning/large/mixture.h"

namespace square::planning {

// By group, bits per second: max-min by weights where each group keeps the parts of its ways. All grow at the
// pace of their weights; a group stops at the first resource that it uses and that is full (Bertsekas and
// Gallager, Data Networks, 1992, 6.5.2), or at its `most`, if there is one. Groups without ways get nothing.
std::vector<double> water_filling(const Instance& instance, const Mixture& mixture,
                                  const std::vector<double>& most = {});

}  // namespace square::planning
