// Groups that stand in the way of planning: which of them can be planned, and which are set aside.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "controller/admission.h"
#include "controller/members.h"
#include "square/clock.h"
#include "square/status.h"

namespace square::controller {

// The most plans that are tried to find the groups in the way. Groups not tried by then are set aside, too.
inline constexpr int kMostTrials = 64;
// Groups that are set aside are tried again with a change of what is planned, but not more often than this.
inline constexpr Duration kTrialRest = std::chrono::seconds(30);

// Plans a state. OK: it is what is to be published.
using Planning = std::function<Status(const PlanningState&)>;

// Topology and policy may be others than those that the groups of an earlier controller were registered
// under. Finds out of the untried ones which can be planned, with as few plans as that takes; the others are
// set aside, so that they are in nobody's way, and the log says which and why. The last state for which
// `plan` returns OK is what `state` is then. Returns what came of the state as a whole: not OK where it
// cannot be planned without them either; then they stay untried, and nothing has changed.
Status try_adopted(PlanningState& state, const Planning& plan);

// The same of a state that was planned before and cannot be any more, for the reason `why`: by its uses, by
// what was measured of its links, or by nodes that went. Tenants are taken back in the order in which they
// came, and the groups of each likewise, so that the one that is set aside is the newest that, left out, lets
// the others be planned.
Status set_aside_unplannable(PlanningState& state, const Status& why, const Planning& plan);

// Tells members of the groups that are set aside in `after` and were not in `before`.
void tell_set_aside(const GroupRegistry& before, const GroupRegistry& after, const Members& members);

// When groups that are set aside are tried again. Not thread-safe.
class Retrials {
 public:
  // Something is to be planned: if it is time, all that are set aside count as untried.
  void note_change(GroupRegistry& registry, TimePoint now);

 private:
  std::optional<TimePoint> next_;
};

}  // namespace square::controller
