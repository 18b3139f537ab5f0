// What an operator lets a tenant do.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "square/quota.h"
#include "square/status.h"

namespace square {

// Signed by an Authority, and shown with every registration of a group to a controller of its domain, which
// registers nothing without. Nodes show what lies in their identities' folders as TENANT.grant, or
// +any.grant.
struct Grant {
  std::string domain;
  std::string tenant;                     // kAnyTenant: of every name, each of which has what is granted
  std::vector<std::string> nodes{};       // that its groups may be on; empty: all
  std::vector<std::string> operations{};  // as scenarios name them: "broadcast"; empty: all
  // Of the tenant among tenants, and the largest that one of its collectives may ask for.
  double weight = 1.0;
  // At once.
  std::uint64_t groups = 64;
  std::uint64_t collectives = 4'096;
  std::uint64_t sessions = 8'192;  // that plans make of them: session_count()
  std::uint64_t members = 1'024;   // of one group
  Quota open{};                    // of calls under way on each node
  std::int64_t expires = 0;        // seconds since 1970

  friend bool operator==(const Grant&, const Grant&) = default;
};

// For an overlay of one user, who is the operator, too.
inline constexpr const char* kAnyTenant = "*";
inline constexpr std::size_t kMaxGrantBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxGrantNodes = 10'000;

// Errors: INVALID_ARGUMENT naming what cannot be.
Status check_grant(const Grant& grant);

// The grant in a text that Authority::grant() has written, once its signature is found to be of one of the
// authorities, certificates in PEM. Says nothing of the time. Errors: UNAUTHENTICATED for another signature,
// INVALID_ARGUMENT for what is no grant.
Result<Grant> read_grant(std::string_view text, std::string_view authority_pem);

}  // namespace square
