#include "controller/lead.h"

#include "base/planted.h"

namespace square::controller {

std::optional<std::string> end_of_lead(store::Hold hold, bool has_others) {
  if (hold == store::Hold::kTaken) return "another controller has taken over its store";
  const bool is_late = hold == store::Hold::kLate && !is_planted(Bug::kLateLeaderGoesOn);
  if (is_late && has_others) return "it could not renew its lease of the store in time";
  return std::nullopt;
}

}  // namespace square::controller
