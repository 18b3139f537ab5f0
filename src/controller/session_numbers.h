// Sessions keep their number over all plans of a controller: make_plan() numbers each plan from 0.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "square/plan.h"

namespace square::controller {

// What makes a session of one plan the same as one of another.
struct SessionKey {
  CollectiveId collective;
  SessionKind kind = SessionKind::kMulticast;
  NodeId root;
  std::vector<NodeId> destinations;  // sorted, root not included
  std::size_t occurrence = 0;        // among those of one plan that are otherwise the same

  friend auto operator<=>(const SessionKey&, const SessionKey&) = default;
};

// Numbers given so far. Those of collectives that left are forgotten, but not given again.
struct SessionNumbers {
  std::map<SessionKey, SessionId> known;
  SessionId::value_type next = 0;
};

// Gives every session of `plan` its lasting number, in ids and references, and sorts sessions by it.
void renumber_sessions(Plan& plan, SessionNumbers& numbers);

}  // namespace square::controller
