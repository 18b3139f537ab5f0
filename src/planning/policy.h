// How a policy differs from the others: what a multicast is, which paths it may use, and
// which programs are solved.
#pragma once

#include <string_view>
#include <vector>

#include "planning/paths/feasible_paths.h"
#include "planning/problem/sessions.h"

namespace square::planning {

// The policy that is none of these: it knows no paths. See exact/exact_plan.h.
inline constexpr std::string_view kExactPolicy = "exact";

// Stateless; one instance a policy.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Is every multicast one unicast a destination?
  [[nodiscard]] virtual bool splits_multicasts() const { return false; }
  [[nodiscard]] virtual Result<SessionPaths> paths(const Scenario& scenario,
                                                   const std::vector<Session>& sessions) const {
    return chosen_paths(scenario, sessions);
  }
  // How many programs of kind (6) come before the one of kind (1).
  [[nodiscard]] virtual int shots(const PolicySpec& spec) const { return spec.shots; }
};

// In the order in which they are listed to people.
const std::vector<const Policy*>& policies();

}  // namespace square::planning
