// Whether a member's call is one that its collective can have.
#pragma once

#include <string>

#include "square/data_plane.h"
#include "square/plan.h"
#include "square/status.h"

namespace square {

// Its sizes, and what it adds. Precondition: the plan knows the collective. Errors: INVALID_ARGUMENT,
// UNIMPLEMENTED.
Status check_call(const MemberOperation& call, const Plan& plan);
// Do two members of one sum give alike? Errors: INVALID_ARGUMENT that names both.
Status check_alike(const MemberOperation& call, const MemberOperation& other);
// What a member gives to a sum, in words.
std::string describe(const MemberOperation& call);

}  // namespace square
