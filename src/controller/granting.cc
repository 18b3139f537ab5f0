#include "controller/granting.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/check.h"
#include "square/identity.h"
#include "trust/files.h"
#include "trust/grants.h"

namespace square::controller {

Result<Grant> Granting::check(const GroupSpec& group, Time time) const {
  if (group.grant.empty()) {
    return permission_denied(fmt::format(
        "tenant \"{}\" has shown no grant: have one issued with `square ca grant`, and put it into the "
        "identity's folder of node \"{}\" as {}",
        group.tenant, group.registrant, trust::grant_file_of(group.tenant)));
  }
  SQUARE_ASSIGN_OR_RETURN(const std::string authority,
                          trust::read_file(authority_file_, trust::Secrecy::kPublic));
  auto grant = read_grant(group.grant, authority);
  if (!grant.is_ok()) return grant.status().with_context(fmt::format("the grant of \"{}\"", group.tenant));
  if (grant->domain != domain_) {
    return unauthenticated(
        fmt::format("the grant of \"{}\" is of domain {}, not of {}", group.tenant, grant->domain, domain_));
  }
  if (time == Time::kCounts && grant->expires <= std::time(nullptr)) {
    return permission_denied(fmt::format("the grant of tenant \"{}\" has expired", group.tenant));
  }
  trust::Wish wish{group.tenant, group.nodes, {}, 0};
  for (const GroupCollective& collective : group.collectives) {
    wish.operations.emplace_back(to_string(collective.op));
    wish.largest_weight = std::max(wish.largest_weight, collective.weight);
  }
  SQUARE_RETURN_IF_ERROR(trust::check_wish(*grant, wish));
  return grant;
}

Status Granting::check_quota(const Grant& grant, const GroupSpec& group, std::size_t collectives,
                             const GroupRegistry::Groups& groups) {
  std::uint64_t others = 0;
  std::uint64_t all = collectives;
  for (const auto& [name, other] : groups) {
    if (other->tenant != group.tenant || other->permanent || name == group.name) continue;
    ++others;
    all += other->collectives.size();
  }
  if (others >= grant.groups) {
    return resource_exhausted(
        fmt::format("tenant \"{}\" has {} groups already, as many as it was granted", group.tenant, others));
  }
  if (all > grant.collectives) {
    return resource_exhausted(fmt::format("tenant \"{}\" would have {} collectives, and was granted {}",
                                          group.tenant, all, grant.collectives));
  }
  return {};
}

std::shared_ptr<const Granting> granting_of(const std::shared_ptr<Identity>& identity) {
  if (!identity || !identity->name()) return nullptr;
  const std::filesystem::path folder(identity->folder());
  return std::make_shared<Granting>(identity->name()->domain, (folder / Identity::kAuthorityFile).string());
}

}  // namespace square::controller
