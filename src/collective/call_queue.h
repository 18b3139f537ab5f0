// The calls of one member that wait for room at its node.
//
// A program may call without ever waiting; a node has room for a bounded number of operations. The queue
// posts a member's calls within the limits below and keeps the rest in order, as descriptions: the data stays
// in the caller's buffers. Every member calls the operations of the group in the same order, so each member's
// oldest call is under way, and the group always makes progress. A message waits behind those of the same
// sender, receiver and tag only: members may send all before they receive anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "collective/work.h"
#include "square/clock.h"
#include "square/member_host.h"

namespace square {

// Longer timeouts are as good as this one, and can be added to any clock.
inline constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

struct CallLimits {
  // How far a call of the group may be ahead of the oldest one that is not over. Far below kGroupCallNumbers:
  // members tell calls apart by their number modulo that.
  std::uint64_t calls = 256;
  // Operations of the group's calls that are under way; the oldest call may have more.
  std::size_t operations = 2'048;
  // Messages of one sender, receiver and tag that are under way. A node hears of kMaxOperationsAhead.
  std::size_t messages = 256;
  // Calls that wait.
  std::size_t waiting = std::size_t{1} << 20U;
};

// One operation at the node, which is a call or a part of one. `operation.done` is the queue's.
struct QueuedOperation {
  MemberOperation operation;
  std::shared_ptr<PostedWork> work;
  // The member's part in the group, until the operation is over.
  std::shared_ptr<const void> membership;
};

// Thread-safe. Shared with the operations under way, which may outlive the group.
class CallQueue : public std::enable_shared_from_this<CallQueue> {
 public:
  // `host` must outlive the operations that it was given.
  explicit CallQueue(MemberHost& host, CallLimits limits = {}) : host_(host), limits_(limits) {}

  // Whether one more call may wait. Errors: RESOURCE_EXHAUSTED.
  [[nodiscard]] Status check_room() const;
  // The group has failed. Errors: the first cause.
  [[nodiscard]] Status failure() const;

  // None of these posts anything: post_ready() does, without any lock of the caller.
  // All operations of a call of the group; `order` counts the calls. Precondition: orders are added
  // ascending.
  void add_call(std::uint64_t order, std::vector<QueuedOperation> operations);
  void add_message(QueuedOperation operation);
  // A step of a call that was begun by begin_composite(): it does not wait.
  void add_step(QueuedOperation operation);
  void post_ready();

  // A call whose steps come later. Calls after it wait for it as for any other. Whether its steps may begin
  // now; else `due` runs, once, when they may, without any lock of the queue.
  bool begin_composite(std::uint64_t order, std::function<void()> due);
  void end_composite(std::uint64_t order);

  // Ends an operation that waits or is under way, on every member.
  void cancel(CollectiveId collective, OperationId operation);
  // The group has failed: what waits ends with the first cause.
  void fail(const Status& cause);
  // The host has dropped an operation: it is going away, and is given nothing more.
  void drop(const Status& cause);
  [[nodiscard]] bool is_dropped() const;

 private:
  friend class PostedCall;
  struct Late {
    CollectiveId collective;
    OperationId operation;
    Rank rank;
    Duration timeout{};
  };
  using Deadlines = std::multimap<TimePoint, Late>;
  struct Call {
    std::uint64_t order = 0;
    std::vector<QueuedOperation> operations;
    Deadlines::iterator deadline{};
    std::function<void()> due{};  // of a composite call, which has no operations and no deadline here
  };
  struct Message {
    QueuedOperation operation;
    Deadlines::iterator deadline;
  };
  struct Messages {
    std::size_t under_way = 0;
    std::deque<Message> waiting;
  };
  // What makes room when it is over.
  struct Place {
    std::optional<std::uint64_t> call{};
    std::optional<CollectiveId> messages{};
  };
  struct Ready {
    QueuedOperation operation;
    TimePoint deadline;
    Place place;
  };

  // With mutex_:
  Deadlines::iterator wait_until_deadline(const MemberOperation& operation);
  void release_calls();
  void release_messages(Messages& messages);
  void make_ready(QueuedOperation operation, TimePoint deadline, const Place& place);
  [[nodiscard]] TimePoint deadline_of(const MemberOperation& operation) const;
  void forget_call(std::uint64_t order);
  // What waits, in order.
  std::vector<QueuedOperation> take_waiting();
  // Without:
  void run_due();
  void post(Ready ready);
  void over(const Place& place);
  void watch_deadlines();
  void on_deadline(TimePoint due);

  MemberHost& host_;
  const CallLimits limits_;
  mutable std::mutex mutex_;  // of what follows
  std::optional<Status> failure_;
  bool is_dropped_ = false;
  std::map<std::uint64_t, std::size_t> open_calls_;  // those not over, with their operations that are not
  std::deque<Call> calls_;                           // that wait
  std::size_t under_way_ = 0;                        // operations of calls
  std::map<CollectiveId, Messages> messages_;
  std::map<CollectiveId, std::uint64_t> posted_;  // operations of each that do not wait any more
  Deadlines deadlines_;                           // of what waits
  std::optional<TimePoint> watched_;              // the deadline that the host calls back at
  std::deque<Ready> ready_;
  std::vector<std::function<void()>> due_;  // of composite calls whose steps may begin
  std::vector<std::pair<CollectiveId, OperationId>> late_cancels_;  // of what may not be at the host yet
  bool is_posting_ = false;
};

}  // namespace square
