// Whether the codes of a session can be followed at all, whoever wrote them.
#pragma once

#include "square/plan.h"

namespace square {

inline constexpr std::uint32_t kMaxCodeBlocks = 256;

// Does everything exist that codes and coded streams name, is it of the same code, and can a node add it:
// each term once, listed before its sum, and over a link to where that begins? Are all factors numbers of the
// field? Whether members can decode is the validator's question. Errors: INVALID_ARGUMENT.
Status check_codes(const PlanSession& session);

bool has_codes_of_floats(const PlanSession& session);
// The same session where its codes of floats are over bytes: what they say for blocks that floats would
// spoil. What is missing of that counts as 0.
PlanSession as_bytes(PlanSession session);

}  // namespace square
