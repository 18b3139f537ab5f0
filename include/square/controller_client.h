// A node's line to its controller.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "square/block_sight.h"
#include "square/controlled_node.h"
#include "square/finished_operations.h"
#include "square/group.h"
#include "square/identity.h"
#include "square/link_report.h"
#include "square/lost_controller.h"
#include "square/status.h"

namespace square {

class Executor;
namespace trust {
class GroupKeys;
}
namespace controller {
class ControlWire;
}

// A controller in this process that follows when those before it are gone: see Controller::stand_by().
struct SuccessorOptions {
  std::string address;
  // The lowest that lives is the next; of those alike, the one whose node's name is.
  std::uint32_t standing = 0;
  // The nodes that have lost their controller, and dial it.
  std::function<std::size_t()> waiting;
  // Given the controllers before it. May block.
  std::function<Status(const std::vector<LostController>& lost)> wake;
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

// Thread-safe. The node must live longer.
class ControllerClient {
 public:
  static constexpr Duration kMinReconnectWait = std::chrono::milliseconds(100);
  static constexpr Duration kMaxReconnectWait = std::chrono::milliseconds(500);

  // Connects and says which node this is. Blocks for connect_timeout at most. Errors:
  // UNAVAILABLE naming the address if no controller answers; FAILED_PRECONDITION for
  // another protocol version; UNAUTHENTICATED for who is not believed; NOT_FOUND if the
  // topology has no node of that name; ALREADY_EXISTS if a live process is that node.
  static Result<std::unique_ptr<ControllerClient>> connect(const ControllerClientOptions& options,
                                                           ControlledNode& node);
  // The same with a controller in this process, for an overlay that is this node and stays so. Errors:
  // INVALID_ARGUMENT for a name that no node may have.
  static Result<std::unique_ptr<ControllerClient>> alone(const std::string& name, ControlledNode& node);
  ~ControllerClient();

  // Says goodbye, and what the node has finished, and ends the connection; registrations under way and later
  // ones fail with CANCELLED, and the events have run for the last time. Blocks for about a quarter of a
  // second at most. Idempotent.
  void stop(const FinishedOperations& finished = {});

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

  // Tells the controller what is wrong with this node's links, in the place of what was said before: plans
  // avoid them where they can. The next controller is told again. Does not block.
  void report_broken_links(LinkTroubles troubles);

  // What the node saw of blocks that are audited; lost where there is no connection. Does not block.
  void report_sights(const std::vector<BlockSight>& sights);

 private:
  struct Core;
  // Over the wire that `make_wire` makes; it calls back on the strand that it is given.
  using MakeWire = std::function<std::unique_ptr<controller::ControlWire>(Executor& strand)>;
  static Result<std::unique_ptr<ControllerClient>> begin(const ControllerClientOptions& options,
                                                         std::vector<std::string> controllers,
                                                         ControlledNode& node, const MakeWire& make_wire);
  explicit ControllerClient(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace square
