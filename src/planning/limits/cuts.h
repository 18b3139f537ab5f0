// The cuts of a certificate that are about some sessions, and what crosses each.
#pragma once

#include <vector>

#include "planning/limits/reading.h"

namespace square::planning {

struct NamedCut {
  NodeSet into;
  bool is_left = false;  // as in LimitingCut
  double length = 0;
  std::vector<SessionId> sessions;  // by id, each once
};

// The cuts that these sessions have at a level, the longest first; equal sets are one.
std::vector<NamedCut> packed_cuts(const PlanReading& reading, const Lengths& lengths,
                                  const std::vector<SessionId>& sessions);
// Those of a policy without levels, the narrowest first.
std::vector<NamedCut> certified_cuts(const PlanReading& reading, CollectiveId collective);

// The cut with all that crosses it, and what it leaves to the collective. Not yet known is
// whether it is the proof.
LimitingCut crossed(const PlanReading& reading, const NamedCut& cut, const Lengths& lengths,
                    CollectiveId collective);

}  // namespace square::planning
