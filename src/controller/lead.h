// When a controller leads, and when it leads no more.
#pragma once

#include <optional>
#include <string>

#include "square/clock.h"
#include "store/store.h"

namespace square::controller {

// Between attempts to get hold of a store that cannot be read, or whose overlay cannot be taken up.
inline constexpr Duration kLeadRetry = std::chrono::seconds(1);
// A leader looks this often whether its store is still its own.
inline constexpr Duration kLeadLook = std::chrono::milliseconds(100);

// Why the lead is over; nothing while it is not. Where others stand by (`has_others`) a late leader has to
// assume that one of them leads.
std::optional<std::string> end_of_lead(store::Hold hold, bool has_others);

}  // namespace square::controller
