// Whether the codes of a session can be followed at all, whoever wrote them.
#pragma once

#include "square/plan.h"

namespace square {

inline constexpr std::uint32_t kMaxCodeBlocks = 256;

// Does everything exist that codes and coded streams name, is it of the same code, and can a node add it:
// each term once, listed before its sum, and over a link to where that begins? Are all factors numbers of the
// field? Whether members can decode is the validator's question. Errors: INVALID_ARGUMENT.
Status check_codes(const PlanSession& session);

}  // namespace square
