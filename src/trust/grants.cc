#include "trust/grants.h"

#include <fmt/format.h>

#include <algorithm>

#include "square/identity.h"

namespace square::trust {
namespace {

template <typename T>
bool allows(const std::vector<T>& granted, const T& wanted) {
  return granted.empty() || std::ranges::find(granted, wanted) != granted.end();
}

}  // namespace

std::string grant_file_of(const std::string& tenant) {
  return tenant == kAnyTenant ? kAnyGrantFile : to_path_segment(tenant) + kGrantSuffix;
}

Status check_wish(const Grant& grant, const Wish& wish) {
  const auto refused = [&](const std::string& what) {
    return permission_denied(fmt::format(
        "the grant of tenant \"{}\" does not have {}; its operator may issue another with `square ca "
        "grant`",
        grant.tenant, what));
  };
  if (grant.tenant != kAnyTenant && grant.tenant != wish.tenant) {
    return permission_denied(
        fmt::format("a grant of tenant \"{}\" is shown for tenant \"{}\"", grant.tenant, wish.tenant));
  }
  for (const std::string& node : wish.nodes) {
    if (!allows(grant.nodes, node)) return refused(fmt::format("node \"{}\"", node));
  }
  for (const std::string& op : wish.operations) {
    if (!allows(grant.operations, op)) return refused(fmt::format("the operation {}", op));
  }
  if (wish.largest_weight > grant.weight) {
    return refused(fmt::format("a weight of {}: at most {}", wish.largest_weight, grant.weight));
  }
  return {};
}

}  // namespace square::trust
