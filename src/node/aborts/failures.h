// What happens when an operation fails, here or elsewhere.
#pragma once

#include <string>

#include "node/aborts/aborts.h"
#include "node/arrival.h"
#include "node/context.h"
#include "node/groups/groups.h"
#include "node/groups/watches.h"
#include "node/links/neighbours.h"
#include "node/operations/open_operations.h"
#include "node/plan/live_plans.h"
#include "node/sums/relayed_sums.h"
#include "square/group_call.h"

namespace square {

// The first cause wins: it ends what runs in the group on this node, and goes to all members. Used on
// the node's strand.
class Failures {
 public:
  struct Parts {
    NodeContext& node;
    Groups& groups;
    Watches& watches;
    OpenOperations& operations;
    RelayedSums& sums;
    const LivePlans& plans;
    Neighbours& neighbours;
  };
  explicit Failures(const Parts& parts);

  // The group fails here; nobody else is told, but by its operations that end.
  void poison(const OperationKey& key, const Status& cause, GroupCall call = {});
  // The operation failed here first: all members are told. `call` is that of the group, where members
  // called it otherwise.
  void announce(const OperationKey& key, const Status& cause, GroupCall call = {});
  // An abort came: passed on once, so that it ends also where trees form cycles.
  void take(const Arrival& arrival);

  // A neighbour's process is no more: what runs in the sessions that it is a member of cannot end.
  void on_neighbour_gone(const std::string& peer);
  // And nothing will bring it back: nor can what is called later, in the groups that it had a part in.
  void on_neighbour_replaced(const std::string& peer);
  void on_neighbour_up(const std::string& peer) {
    aborts_.repeat([this](SessionId session) { return parts_.plans.ways_of(session); }, peer);
  }

 private:
  void end_session(SessionId session, const Status& cause);
  void on_neighbour_left();

  const Parts parts_;
  Aborts aborts_;
};

}  // namespace square
