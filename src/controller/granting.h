// What tenants may register: their operator's grants.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/group_registry.h"
#include "square/grant.h"
#include "square/group.h"
#include "square/identity.h"
#include "square/status.h"

namespace square::controller {

// Thread-safe; shared by the copies of a registry.
class Granting {
 public:
  // Believes the authorities in `authority_file`, certificates in PEM, as they are when they are needed.
  Granting(std::string domain, std::string authority_file)
      : domain_(std::move(domain)), authority_file_(std::move(authority_file)) {}

  enum class Time : bool { kCounts, kIsOver };  // whether a grant must not have expired
  // What lets the group's tenant have it on its nodes. Errors: PERMISSION_DENIED naming what is not granted,
  // UNAUTHENTICATED for a grant that is not of this domain's operator, UNAVAILABLE for the authority's file.
  [[nodiscard]] Result<Grant> check(const GroupSpec& group, Time time) const;

  // By the tenants of these grants, kAnyTenant for all others: whether they let their groups be on the node
  // now.
  [[nodiscard]] std::map<std::string, bool> tenants_of(const std::vector<std::string>& grants,
                                                       const std::string& node) const;

  // Whether the tenant may have the group with all of `collectives`, beside its others. Errors:
  // RESOURCE_EXHAUSTED.
  [[nodiscard]] static Status check_quota(const Grant& grant, const GroupSpec& group,
                                          const std::set<CollectiveIdentity>& collectives,
                                          const GroupRegistry::Groups& groups);

 private:
  const std::string domain_;
  const std::string authority_file_;
};

// That plans make of what the group asks for.
std::uint64_t sessions_of(const GroupSpec& group);

// Of a controller with this identity: none where nobody signs grants.
std::shared_ptr<const Granting> granting_of(const std::shared_ptr<Identity>& identity);

}  // namespace square::controller
