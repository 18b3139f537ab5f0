// What a collective is made of: sessions with a root, destinations and a range of bytes.
#pragma once

#include <optional>
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
  // The other members, in rank order. In a reduce the data comes from them.
  std::vector<NodeId> destinations;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  // f_i = fraction * g_c: what the session needs of its collective's rate; or, of a planned
  // all-reduce, of the rate of its share.
  double fraction = 1.0;
  // Of a planned all-reduce: which share, the position of its root among the members. The
  // shares' rates sum to g_c. Their bytes are known when their rates are.
  std::optional<std::size_t> share;
  // Sessions of one group carry the same bytes to different destinations: a multicast
  // that a policy turned into unicasts. Numbered from 0 over the scenario.
  std::size_t group = 0;
};

struct Expansion {
  // Each multicast becomes one unicast a destination.
  bool split_multicasts = false;
  // Relays may add: reduces can be planned.
  bool with_reduces = false;
};

// Expands every collective, in order; ids count from 0. A collective with one member has
// no session. Errors, naming the collective: UNIMPLEMENTED for operations that add on the
// way, unless `with_reduces`; INVALID_ARGUMENT for a buffer that is too large.
Result<std::vector<Session>> expand_sessions(const Scenario& scenario, const Expansion& how);

// "collective 3 (broadcast, tenant alice)".
std::string describe(const CollectiveSpec& collective);

}  // namespace square::planning
