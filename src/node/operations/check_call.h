// Whether a member's call is one that its collective can have.
#pragma once

#include <string>

#include "node/plan/installed_collective.h"
#include "square/data_plane.h"
#include "square/status.h"

namespace square {

// Its sizes, and what it adds. Errors: INVALID_ARGUMENT,
// UNIMPLEMENTED.
Status check_call(const MemberOperation& call, const InstalledCollective& collective);
// Do two members of one sum give alike? Errors: INVALID_ARGUMENT that names both.
Status check_alike(const MemberOperation& call, const MemberOperation& other);
// What a member gives to a sum, in words.
std::string describe(const MemberOperation& call);

}  // namespace square
