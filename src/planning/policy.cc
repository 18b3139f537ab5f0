#include "planning/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "planning/exact/policy.h"
#include "planning/square/policies.h"

namespace square::planning {

Result<std::vector<FrontierPoint>> Policy::frontier(const Scenario& scenario, int) {
  return invalid_argument(fmt::format("policy \"{}\" has no cost frontier: use name = \"{}\"",
                                      scenario.policy.name, policy_that_meets_demands()));
}

std::span<const PolicyEntry> policies() {
  static constexpr std::array kPolicies = {
      PolicyEntry{"exact", make_exact, true, kExactExpansion},
      PolicyEntry{"square", [] { return make_path_policy(kSquare); }, false},
      PolicyEntry{"max-throughput", [] { return make_path_policy(kMaxThroughput); }, false},
      PolicyEntry{"shortest-path", [] { return make_path_policy(kShortestPath); }, false},
      PolicyEntry{"mcf", [] { return make_path_policy(kMultiCommodityFlow); }, false,
                  Expansion{.split_multicasts = kMultiCommodityFlow.splits_multicasts}}};
  return kPolicies;
}

const PolicyEntry* find_policy(std::string_view name) {
  const auto found = std::ranges::find(policies(), name, &PolicyEntry::name);
  return found == policies().end() ? nullptr : &*found;
}

std::string_view policy_that_meets_demands() {
  const auto found = std::ranges::find(policies(), true, &PolicyEntry::meets_demands);
  SQUARE_CHECK(found != policies().end(), "no policy meets demands");
  return found->name;
}

}  // namespace square::planning
