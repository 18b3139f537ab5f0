// What a controller asks of the grants that it is shown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "square/grant.h"
#include "square/status.h"

namespace square::trust {

inline constexpr const char* kGrantSuffix = ".grant";
// No tenant's is called so.
inline constexpr const char* kAnyGrantFile = "+any.grant";

std::string grant_file_of(const std::string& tenant);

// What somebody wants to do as `tenant`.
struct Wish {
  std::string_view tenant;
  const std::vector<std::string>& nodes;
  std::vector<std::string> operations;
  double largest_weight = 0;  // of a collective
};
// Errors: PERMISSION_DENIED naming what is not granted.
Status check_wish(const Grant& grant, const Wish& wish);

}  // namespace square::trust
