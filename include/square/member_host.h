// Where a member's operations run: a node in this process, or a gateway's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "square/clock.h"
#include "square/data_plane.h"
#include "square/group.h"
#include "square/status.h"

namespace square {

// A member's part in a group. It lasts until the last reference to `membership` is gone: then the member
// calls nothing more, and when all members have gone the group ends.
struct GroupPart {
  GroupRegistration registration;
  std::shared_ptr<const void> membership;
};

// What a Communicator needs of the node that its member lives on. Thread-safe.
class MemberHost {
 public:
  virtual ~MemberHost() = default;

  // The node's name in the overlay.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Registers the group as `member`, who lives here. Where that rank was closed under a group of that name,
  // waits until all others were. Errors: those of ControllerClient::register_group(). Blocks for `timeout` at
  // most.
  virtual Result<GroupPart> join_group(const GroupSpec& group, Rank member, Duration timeout) = 0;
  // Adds collectives to a group that was joined. See ControllerClient::register_group(). Blocks for `timeout`
  // at most.
  virtual Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) = 0;
  // Waits until all of the group have asked alike or are gone, and returns the group that these go on in,
  // with its origin. `request` names one rank, who lives here, or a joiner. The other ranks of the node are
  // waited for as well. Errors: those of ControllerClient::regroup(). Blocks for `timeout` at most.
  // UNIMPLEMENTED where there is no controller.
  virtual Result<GroupSpec> regroup(const RegroupRequest& request, Duration /*timeout*/) {
    return Status(StatusCode::kUnimplemented, "group \"" + request.group + "\" has no controller to ask");
  }
  // This process did not run for long since then: others may have gone on without it.
  [[nodiscard]] virtual bool was_stopped_since(TimePoint /*when*/) const { return false; }
  // What timeouts are counted on.
  [[nodiscard]] virtual const Clock& clock() const { return steady_clock(); }
  // Calls `then` after `delay`, on the thread that operations end on; dropped when the host stops.
  virtual void after(Duration delay, std::function<void()> then) = 0;
  // Runs `task`, arithmetic over about `bytes`, on a thread for that, or before it returns where
  // another thread would cost more; and `then` on the thread that operations end on. Both are dropped when
  // the host stops.
  virtual void work(std::size_t /*bytes*/, const std::function<void()>& task, std::function<void()> then) {
    task();
    after(Duration(0), std::move(then));
  }
  // See DataPlane: none of these blocks.
  virtual void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks) = 0;
  virtual void post(MemberOperation operation) = 0;
  virtual void cancel(CollectiveId collective, OperationId operation) = 0;
  virtual void fail(CollectiveId collective, OperationId operation, Status cause) = 0;
  // `arrived` is always called: with CANCELLED, on whatever thread, when the host has stopped.
  virtual void watch(CollectiveId collective, OperationId operation, Duration timeout,
                     std::function<void(Status)> arrived) = 0;
  // See DataPlane. A gateway cannot say: empty. A host that has stopped may drop `receive`.
  virtual void describe(CollectiveId /*collective*/, OperationId /*operation*/,
                        std::function<void(std::string waits_for)> receive) {
    receive({});
  }
};

}  // namespace square
