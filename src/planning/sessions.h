// What a collective is made of: sessions with a root, destinations and a range of bytes.
#pragma once

#include <vector>

#include "square/plan.h"
#include "square/scenario.h"
#include "square/status.h"

namespace square::planning {

struct Session {
  SessionId id;
  std::size_t collective = 0;  // position in the scenario
  SessionKind kind = SessionKind::kMulticast;
  NodeId root;
  std::vector<NodeId> destinations;  // in rank order, root not included
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  // f_i = fraction * g_c: what the session needs of its collective's rate.
  double fraction = 1.0;
  // Sessions of one group carry the same bytes to different destinations: a multicast
  // that a policy turned into unicasts. Numbered from 0 over the scenario.
  std::size_t group = 0;
};

// Expands every collective, in order; ids count from 0. `split_multicasts` turns each
// multicast into one unicast a destination. A collective with one member has no session.
// Errors, naming the collective: UNIMPLEMENTED for operations that add on the way,
// INVALID_ARGUMENT for a buffer that is too large.
Result<std::vector<Session>> expand_sessions(const Scenario& scenario, bool split_multicasts);

// "collective 3 (broadcast, tenant alice)".
std::string describe(const CollectiveSpec& collective);

}  // namespace square::planning
