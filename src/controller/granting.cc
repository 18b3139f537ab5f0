#include "controller/granting.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/check.h"
#include "square/collective_op.h"
#include "square/identity.h"
#include "trust/files.h"
#include "trust/grants.h"

namespace square::controller {
namespace {

std::uint64_t sessions_of(const std::set<CollectiveIdentity>& collectives,
                          const std::vector<std::string>& nodes) {
  // Members that share a node are one there.
  const std::uint64_t all = std::set<std::string_view>(nodes.begin(), nodes.end()).size();
  std::uint64_t sessions = 0;
  for (const CollectiveIdentity& collective : collectives) {
    std::set<std::string_view> members;
    for (const Rank rank : collective.members) members.insert(nodes[rank.value()]);
    sessions += session_count(collective.op, members.empty() ? all : members.size());
  }
  return sessions;
}

std::uint64_t sessions_of(const RegisteredGroup& group) {
  std::set<CollectiveIdentity> collectives;
  for (const RegisteredCollective& one : group.collectives) collectives.insert(identity_of(one.spec));
  return sessions_of(collectives, group.nodes);
}

}  // namespace

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
  // A copy of the grant is of no use on a node without a member of the group.
  const bool is_member = std::ranges::find(group.nodes, group.registrant) != group.nodes.end();
  if (!group.registrant.empty() && !is_member) {
    return permission_denied(fmt::format(
        "node \"{}\" shows the grant of tenant \"{}\" for group \"{}\", of which it is no member: a group is "
        "registered by the nodes of its members",
        group.registrant, group.tenant, group.name));
  }
  trust::Wish wish{group.tenant, group.nodes, {}, 0};
  for (const GroupCollective& collective : group.collectives) {
    wish.operations.emplace_back(to_string(collective.op));
    wish.largest_weight = std::max(wish.largest_weight, collective.weight);
  }
  SQUARE_RETURN_IF_ERROR(trust::check_wish(*grant, wish));
  return grant;
}

std::map<std::string, bool> Granting::tenants_of(const std::vector<std::string>& grants,
                                                 const std::string& node) const {
  std::map<std::string, bool> tenants;
  const auto authority = trust::read_file(authority_file_, trust::Secrecy::kPublic);
  if (!authority.is_ok()) return tenants;
  for (const std::string& text : grants) {
    const auto grant = read_grant(text, *authority);
    if (!grant.is_ok() || grant->domain != domain_) continue;
    tenants[grant->tenant] = grant->expires > std::time(nullptr) &&
                             trust::check_wish(*grant, {grant->tenant, {node}, {}, 0}).is_ok();
  }
  return tenants;
}

Status Granting::check_quota(const Grant& grant, const GroupSpec& group,
                             const std::set<CollectiveIdentity>& collectives,
                             const GroupRegistry::Groups& groups) {
  const auto refused = [&](std::uint64_t wanted, const char* what, std::uint64_t granted) {
    return resource_exhausted(fmt::format("tenant \"{}\" would have {} {}, and was granted {}", group.tenant,
                                          wanted, what, granted));
  };
  const bool counts_sessions = grant.sessions != Quota::kNone;
  std::uint64_t all_groups = 1;
  std::uint64_t all_collectives = collectives.size();
  std::uint64_t sessions = counts_sessions ? sessions_of(collectives, group.nodes) : 0;
  for (const auto& [name, other] : groups) {
    if (other->tenant != group.tenant || other->permanent || name == group.name) continue;
    ++all_groups;
    all_collectives += other->collectives.size();
    if (counts_sessions) sessions += sessions_of(*other);
  }
  if (group.nodes.size() > grant.members)
    return refused(group.nodes.size(), "members of one group", grant.members);
  if (all_groups > grant.groups) return refused(all_groups, "groups", grant.groups);
  if (all_collectives > grant.collectives) return refused(all_collectives, "collectives", grant.collectives);
  if (sessions > grant.sessions) return refused(sessions, "sessions", grant.sessions);
  return {};
}

std::uint64_t sessions_of(const GroupSpec& group) {
  std::set<CollectiveIdentity> collectives;
  for (const GroupCollective& one : group.collectives) {
    // Before anybody has looked whether there are such ranks.
    const bool is_known =
        std::ranges::all_of(one.members, [&](Rank rank) { return rank.index() < group.nodes.size(); });
    if (is_known) collectives.insert(identity_of(one));
  }
  return sessions_of(collectives, group.nodes);
}

std::shared_ptr<const Granting> granting_of(const std::shared_ptr<Identity>& identity) {
  if (!identity || !identity->name()) return nullptr;
  const std::filesystem::path folder(identity->folder());
  return std::make_shared<Granting>(identity->name()->domain, (folder / Identity::kAuthorityFile).string());
}

}  // namespace square::controller
