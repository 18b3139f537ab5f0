#include "planning/scenario/policy_fields.h"

#include <fmt/format.h>

#include <cmath>

namespace square {
namespace {

template <typename Id>
Status check_known(const std::vector<Id>& ids, std::size_t count, std::string_view what) {
  for (const Id id : ids) {
    if (id.index() < count) continue;
    return invalid_argument(fmt::format("{} is not a {}: the topology has {}", id.value(), what, count));
  }
  return {};
}

}  // namespace

Status NumberRange::check(double value) const {
  const bool above = least_itself ? value >= least : value > least;
  const bool below = most_itself ? value <= most : value < most;
  if (std::isfinite(value) && above && below) return {};
  if (std::isfinite(most)) {
    return invalid_argument(
        fmt::format("must be from {} to {}{}, not {}", least, most_itself ? "" : "below ", most, value));
  }
  return invalid_argument(least_itself ? fmt::format("must be {} or above and finite, not {}", least, value)
                                       : fmt::format("must be above {} and finite, not {}", least, value));
}

Status check_paths(const PolicySpec& policy, const Topology&) {
  if (policy.paths.kind == PathKind::kAll || policy.paths.k <= kMaxPaths) return {};
  return invalid_argument(fmt::format("must be at most {}, not {}", kMaxPaths, policy.paths.k));
}

Status check_streams(const PolicySpec& policy, const Topology&) {
  if (policy.max_streams == 0 || policy.objective != Objective::kCost) return {};
  return invalid_argument("fewer streams cost rate, and objective = \"cost\" requires it; leave one out");
}

Status check_budget(const PolicySpec& policy, const Topology&) {
  if (!policy.budget_usd_per_hour || policy.objective == Objective::kFair) return {};
  return invalid_argument("is for objective = \"fair\"; with \"cost\" the plan is the cheapest anyway");
}

Status check_avoided_nodes(const PolicySpec& policy, const Topology& topology) {
  return check_known(policy.avoid_nodes, topology.node_count(), "node");
}

Status check_avoided_links(const PolicySpec& policy, const Topology& topology) {
  return check_known(policy.avoid_links, topology.link_count(), "link");
}

}  // namespace square
