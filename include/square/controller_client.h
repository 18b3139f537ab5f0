// A node's line to its controller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "square/block_sight.h"
#include "square/controller.h"
#include "square/finished_operations.h"
#include "square/group.h"
#include "square/identity.h"
#include "square/link_report.h"
#include "square/plan.h"
#include "square/status.h"
#include "square/topology.h"

namespace square {

namespace trust {
class GroupKeys;
}

// A controller in this process that follows when those before it are gone: see Controller::stand_by().
struct SuccessorOptions {
  std::string address;
  // The lowest that lives is the next; of those alike, the one whose node's name is.
  std::uint32_t standing = 0;
  std::function<std::size_t()> waiting;
  // Given the nodes whose controllers are gone.
  std::function<Status(const std::vector<std::string>& gone)> wake;
};

struct ControllerClientOptions {
  std::string controller_address;      // several of one store with commas, 16 at most
  std::shared_ptr<Identity> identity;  // of the node; none: without TLS
  std::string node_name;
  std::string node_address;  // where other nodes reach this one
  Duration connect_timeout = std::chrono::seconds(5);
  std::optional<SuccessorOptions> successor{};
  // Of the node's process: groups that are registered have keys; null: nothing of theirs is sealed.
  std::shared_ptr<trust::GroupKeys> group_keys{};
};

struct PeerAddress {
  std::string name;
  std::string address;
};

// What a controller asks its nodes on behalf of examine().
struct ExamineQuestion {
  std::vector<PeerAddress> peers;  // whom the node is to reach
  Duration time{0};                // a later answer is not waited for
};

// What the controller says. Called one at a time from a thread of the client; must not
// block for long and must not destroy the client.
struct ControllerEvents {
  // `incarnation` is that of the process which is there.
  std::function<void(const std::string& peer, const std::string& address, std::uint64_t incarnation)>
      on_address;
  // First phase; call `installed` (from any thread, once) when it is done.
  std::function<void(std::shared_ptr<const Plan> plan, std::function<void(Epoch)> installed)> on_plan;
  // Second phase; with `moves`, operations that run are to move to the plan at once.
  std::function<void(Epoch epoch, bool moves)> on_activate;
  // A node has left, and says what it has `finished`, or neither the controller nor any node has heard of it
  // for a lease.
  std::function<void(const std::string& peer, const std::string& reason,
                     std::optional<FinishedOperations> finished)>
      on_gone;
  // Nobody can plan these any more: calls of their group here are to fail with `reason`.
  std::function<void(const std::vector<CollectiveId>& collectives, const std::string& reason)> on_unplanned;
  // Others cannot reach that node: it is to be dialled, so that the controller hears whether it is there.
  std::function<void(const std::string& peer)> on_look;
  // The identity holds what the controller has revoked: links of these peers are to end.
  std::function<void()> on_revoked;
  // Somebody examines the overlay: call `answer` (from any thread, once) with the node's report, JSON as in
  // docs/doctor.md. Without this no question is answered.
  std::function<void(ExamineQuestion question, std::function<void(std::string report)> answer)> on_examine;
  // Asked now and then, from another thread of the client: the nodes that this one hears.
  std::function<std::vector<std::string>()> heard;
  // Asked as often, from the same thread: what it has measured of its links, and not told before.
  std::function<std::vector<LinkReport>()> measured;
  // The connection broke; the client connects again by itself, with waits of
  // kMinReconnectWait to kMaxReconnectWait, until it is stopped.
  std::function<void(Status reason)> on_lost;
};

// Thread-safe.
class ControllerClient {
 public:
  static constexpr Duration kMinReconnectWait = std::chrono::milliseconds(100);
  static constexpr Duration kMaxReconnectWait = std::chrono::milliseconds(500);

  // Connects and says which node this is. Blocks for connect_timeout at most. Errors:
  // UNAVAILABLE naming the address if no controller answers; FAILED_PRECONDITION for
  // another protocol version; UNAUTHENTICATED for who is not believed; NOT_FOUND if the
  // topology has no node of that name; ALREADY_EXISTS if a live process is that node.
  static Result<std::unique_ptr<ControllerClient>> connect(ControllerClientOptions options,
                                                           ControllerEvents events);
  ~ControllerClient();

  // Says goodbye, and what the node has finished, and ends the connection; registrations under way and later
  // ones fail with CANCELLED, and the events have run for the last time. Blocks for about a quarter of a
  // second at most. Idempotent.
  void stop(const FinishedOperations& finished = {});

  // The address of the controller that this node follows: another one where it brings a successor, and the
  // first is gone.
  [[nodiscard]] std::string controller() const;

  // Registers a group, the same from every member, and waits until a plan that knows
  // its collectives is active everywhere. Collectives that the group does not have yet
  // are added. Where this node has closed a group of that name, waits until the others have, too.
  // Errors: INVALID_ARGUMENT for a spec that differs from what others
  // registered under that name, an unknown node, bad weights; those of make_plan();
  // DEADLINE_EXCEEDED, with the nodes that have not closed the group of that name before; UNAVAILABLE.
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout);

  // Asks for the group that one goes on in: its members that live, in the order of their ranks, and behind
  // them those that join. The controller answers all at once, when every node of the group has asked or is
  // gone: has left, has closed the group, does not listen at its address any more, or was not heard of for a
  // lease. A controller that is lost meanwhile is waited for, or the next one. Errors: DEADLINE_EXCEEDED with
  // the names of who is awaited; FAILED_PRECONDITION where the group goes on without this node, or is not
  // there; INVALID_ARGUMENT where others ask for other numbers of joiners; those of register_group(). Blocks
  // for `timeout` at most.
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout);

  // This node's members call nothing more in the group, of the number that it was registered with. When all
  // nodes that are there have said so it ends: it leaves the plan within a second, and its name is free. A
  // node that leaves has closed all. Does not block; what the controller does not hear is said again.
  void close_group(const std::string& group, std::uint64_t number);

  // Tells the controller, with the next heartbeat, that a member here gave so many bytes to an
  // operation: collectives share by use. Does not block.
  void note_use(CollectiveId collective, std::uint64_t bytes);

  // Tells the controller what is wrong with this node's links, in the place of what was said before: plans
  // avoid them where they can. The next controller is told again. Does not block.
  void report_broken_links(LinkTroubles troubles);
  // A controller is connected that has welcomed this node. Does not block.
  [[nodiscard]] bool is_connected() const;

  // What the node saw of blocks that are audited; lost where there is no connection. Does not block.
  void report_sights(const std::vector<BlockSight>& sights);

 private:
  class Core;
  explicit ControllerClient(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// What is known of a link of an overlay.
struct LinkInformation {
  struct Point {
    double system_seconds = 0;  // since the epoch of the controller's system clock
    double capacity_bps = 0;
    bool is_probed = false;
  };
  std::string from;
  std::string to;
  LinkProperties given;  // by the topology
  double planned_bps = kUnlimited;
  LinkReport measured;         // capacity 0: not measured
  Duration age{0};             // of that capacity
  std::vector<Point> history;  // the oldest first
};

struct OverlayInformation {
  Topology topology;  // as it was given
  std::vector<LinkInformation> links;
};

// The topology of the controller at that address, and what was measured of its links. Blocks for `timeout` at
// most. Errors: UNAVAILABLE, UNAUTHENTICATED, DEADLINE_EXCEEDED.
Result<OverlayInformation> list_links(const std::string& controller_address,
                                      const std::shared_ptr<Identity>& identity, Duration timeout);

// The nodes of an overlay and whether they are connected, as its controller knows them; any process
// may ask. Blocks for `timeout` at most. Thread-safe. Errors: INVALID_ARGUMENT for an address that is
// none, UNAVAILABLE if no controller answers there, UNAUTHENTICATED for who is not believed,
// DEADLINE_EXCEEDED.
Result<std::vector<NodeInformation>> list_nodes(const std::string& controller_address,
                                                const std::shared_ptr<Identity>& identity, Duration timeout);

// A node as its controller and the node itself see it.
struct ExaminedNode {
  std::string name;
  std::string address;  // as it advertises it
  bool connected = false;
  bool answered = false;
  std::vector<std::string> peers;  // whom it was asked to reach
  // How far its wall clock is ahead of the controller's, and how wrong that may be at the most.
  Duration clock_ahead{0};
  Duration clock_doubt{0};
  std::string report_json;  // empty where it did not answer
};

// Neighbours that differ about blocks which went from the one to the other: one of them changes blocks, or
// lies.
struct Suspicion {
  std::string from;
  std::string to;
  std::uint64_t count = 0;  // of blocks
  SessionId session;        // of the last
  double seconds = 0;       // when that was, since 1970
};

struct Examination {
  std::string version;  // of the controller
  std::uint32_t control_protocol = 0;
  std::vector<ExaminedNode> nodes;      // of the topology, there or not, then the others
  std::vector<Suspicion> suspicions{};  // since the controller began; the most frequent first
};

// Has every node of an overlay look at itself and try to reach its peers; docs/doctor.md says what they tell.
// Any process may ask. Blocks for `timeout` and a second at most; nodes that have not answered by then are
// marked. Thread-safe. Errors: as list_nodes(), and UNIMPLEMENTED where what answers is no controller of this
// release, RESOURCE_EXHAUSTED while many others ask.
Result<Examination> examine(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                            Duration timeout);

}  // namespace square
