// The list of what was revoked: a line for each name, "ROLE/NAME SECONDS".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "square/identity.h"

namespace square::trust {

inline constexpr std::size_t kMaxRevocations = 10'000;

std::string to_text(const std::vector<Revocation>& revoked);
// Errors: INVALID_ARGUMENT naming the line.
Result<std::vector<Revocation>> parse_revocations(std::string_view text);

}  // namespace square::trust
