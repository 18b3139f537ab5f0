// A node as its controller sees it: what it is told, and what it reports.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "square/finished_operations.h"
#include "square/ids.h"
#include "square/link_report.h"
#include "square/plan.h"
#include "square/status.h"

namespace square {

struct PeerAddress {
  std::string name;
  std::string address;
};

// What a controller asks its nodes on behalf of examine().
struct ExamineQuestion {
  std::vector<PeerAddress> peers;  // the node tries to reach these
  Duration time{0};                // the controller does not wait for a later answer
};

// Bytes that members of a node gave to operations.
using UsedBytes = std::map<CollectiveId, std::uint64_t>;

// What a node says of itself with each heartbeat.
struct NodeReport {
  std::vector<std::string> heard;    // the nodes that it has links with
  std::vector<LinkReport> measured;  // of its links, and not reported before
  UsedBytes used;                    // since the last report: collectives share by use
};

// A client calls one method at a time, on a thread of its own. Methods must not block for long, and must not
// destroy the client. A method that is not overridden does nothing; a plan then counts as installed at once.
class ControlledNode {
 public:
  virtual ~ControlledNode() = default;

  // The controller at that address has welcomed this node, and is there until lose_controller().
  virtual void set_controller(const std::string& /*address*/) {}
  // The connection broke. The client connects again by itself, with waits of
  // ControllerClient::kMinReconnectWait to kMaxReconnectWait, until it is stopped.
  virtual void lose_controller(const Status& /*reason*/) {}

  // Where another node listens; `incarnation` is that of the process which is there.
  virtual void set_address(const std::string& /*peer*/, const std::string& /*address*/,
                           std::uint64_t /*incarnation*/) {}
  // A node has left, and says what it has `finished`, or neither the controller nor any node has heard of it
  // for a lease.
  virtual void set_gone(const std::string& /*peer*/, const std::string& /*reason*/,
                        const std::optional<FinishedOperations>& /*finished*/) {}
  // Others cannot reach that node: this one dials it, so that the controller hears whether it is there.
  virtual void look_for(const std::string& /*peer*/) {}
  // The identity holds what the controller has revoked: links of these peers are to end.
  virtual void recheck_peers() {}

  // First phase of a change of plan; calls `installed` (from any thread, once) when it is done.
  virtual void install_plan(const std::shared_ptr<const Plan>& plan,
                            const std::function<void(Epoch)>& installed);
  // Second phase; with `moves`, operations that run are to move to the plan at once.
  virtual void activate_plan(Epoch /*epoch*/, bool /*moves*/) {}
  // No plan can have these any more: calls of their group here are to fail with `reason`.
  virtual void set_unplanned(const std::vector<CollectiveId>& /*collectives*/,
                             const std::string& /*reason*/) {}

  // An operator examines the overlay: calls `answer` (from any thread, once) with the node's report, JSON as
  // in docs/doctor.md.
  virtual void examine(const ExamineQuestion& /*question*/,
                       const std::function<void(std::string report)>& /*answer*/) {}
  // Asked with each heartbeat.
  virtual NodeReport report() { return {}; }
};

inline void ControlledNode::install_plan(const std::shared_ptr<const Plan>& plan,
                                         const std::function<void(Epoch)>& installed) {
  installed(plan->epoch);
}

}  // namespace square
