// The policy "exact" as the planner sees it.
#pragma once

#include <memory>

#include "planning/policy.h"

namespace square::planning {

// Relays may add.
inline constexpr Expansion kExactExpansion = {.split_multicasts = false, .with_reduces = true};

std::unique_ptr<Policy> make_exact();

}  // namespace square::planning
