// One member's calls of its group's collectives: every operation is made of these.
//
// A collective is registered with the controller when it is first called, and keeps its
// sessions from then on. docs/collectives.md says which operation calls which.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/own_process.h"
#include "collective/arrivals.h"
#include "collective/call_queue.h"
#include "collective/work.h"
#include "square/group.h"
#include "square/member_host.h"

namespace square {

// A member's part in one call of one collective. GroupCalls fills in the numbers.
struct Part {
  GroupCollective collective;
  MemberOperation call;
};

// The two ends of a multicast: its root's bytes go to every member.
Part multicast_source(Rank self, std::span<const std::byte> data, ElementType elements = ElementType::kBytes);
Part multicast_destination(Rank root, std::span<std::byte> data);
// The two ends of a unicast: calls with the same channel meet in their order.
GroupCollective unicast(Rank from, Rank to, std::uint32_t channel);
Part unicast_source(Rank self, Rank to, std::span<const std::byte> data, std::uint32_t channel);
Part unicast_destination(Rank self, Rank from, std::span<std::byte> data, std::uint32_t channel);
// Of gather, scatter and all-to-all; send and receive have others.
inline constexpr std::uint32_t kCollectiveChannel = 0;

// What a member gives to itself: unless both are the same bytes. Errors: INVALID_ARGUMENT for
// sizes that differ.
Status copy_own(Rank self, std::span<const std::byte> from, std::span<std::byte> to);

// Thread-safe.
class GroupCalls {
 public:
  // Preconditions: the group has members and `rank` is one of them, on `node`.
  GroupCalls(MemberHost& node, GroupSpec group, Rank rank);

  [[nodiscard]] const std::string& name() const { return group_.name; }
  [[nodiscard]] const GroupOrigin& origin() const { return group_.origin; }
  [[nodiscard]] std::uint64_t number();
  [[nodiscard]] const std::vector<std::string>& nodes() const { return group_.nodes; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::size_t size() const { return group_.nodes.size(); }
  [[nodiscard]] std::vector<Rank> ranks() const;
  // Errors: INVALID_ARGUMENT, naming what the rank is, or the buffers are, for.
  [[nodiscard]] Status check_rank(Rank rank, const char* what) const;
  [[nodiscard]] Status check_buffers(std::size_t count, const char* what) const;

  // Joins the group with what its spec names. Errors: those of MemberHost::join_group().
  Status enrol(Duration timeout);
  // The group that the member goes on in, with so many that join, and its rank there. Errors: those of
  // MemberHost::regroup(). Blocks for `timeout` at most.
  struct NextGroup {
    GroupSpec group;
    Rank rank;
  };
  // FAILED_PRECONDITION where nobody but this node's members would go on, its process was stopped for long,
  // so that the others may have gone on without it, and no minority is allowed.
  Result<NextGroup> next_group(std::uint32_t joiners, Duration timeout, bool allow_minority);
  // Later calls are refused with FAILED_PRECONDITION, but for steps of operations that were called before.
  void refuse();
  // The member's part ends, with the last of its calls.
  void leave();

  // Registers, at once, those of `collectives` that were not yet, then posts the parts in
  // their order; all get `timeout`. A collective that this member has no part in is only
  // registered: whoever calls first does it for all. Blocks while registering, for `timeout`
  // at most. What finds no room at the node waits for it in order. Errors: FAILED_PRECONDITION after a
  // failure; RESOURCE_EXHAUSTED where as many calls wait as may, and the call does not count; those of
  // enrol().
  Result<std::shared_ptr<Work>> call(CallKind kind, std::vector<Part> parts, Duration timeout,
                                     std::vector<GroupCollective> collectives = {});

  // For operations of several steps (composite_calls.h). The number that all of them have; `order` counts
  // the group's calls, and ends with end_call(). The steps may begin where it `is_due`, else when `due` runs.
  struct Numbered {
    GroupCall number;
    std::uint64_t order = 0;
    bool is_due = true;
  };
  Numbered number_call(CallKind kind, std::function<void()> due);
  void end_call(const Numbered& call) { queue_->end_composite(call.order); }
  // As call(), of an operation that was numbered before. Precondition: all collectives are
  // registered. Does not block. Errors: the group's first failure, for the operation began before it.
  Result<std::shared_ptr<Work>> call_step(GroupCall number, std::vector<Part> parts, Duration timeout);

  // For a receive from any source. The number of this member's next call of a collective.
  struct Next {
    CollectiveId collective;
    OperationId operation;
  };
  // Registers `collectives`; blocks as call() does.
  Status ensure(const std::vector<GroupCollective>& collectives, Duration timeout);
  [[nodiscard]] bool is_registered(const GroupCollective& collective);
  // Precondition: it is registered.
  [[nodiscard]] Next next_of(const GroupCollective& collective);
  // Posts the part if its call is still the next one; otherwise null.
  std::shared_ptr<PostedWork> post_next(Part part, OperationId expected, Duration timeout);
  [[nodiscard]] bool is_forked() const { return process_.is_forked(); }
  // Errors: FAILED_PRECONDITION for a group that has failed, was closed, or is another process's.
  [[nodiscard]] Status check_usable();
  // The group has failed here, outside of any call that was posted.
  void fail(const Next& where, const Status& cause);
  [[nodiscard]] MemberHost& host() { return node_; }
  [[nodiscard]] Arrivals& arrivals() { return *arrivals_; }

 private:
  struct Registered {
    CollectiveId id;
    std::uint64_t calls = 0;
  };
  Status enrol(std::vector<GroupCollective> collectives, Duration timeout);
  [[nodiscard]] Status closed() const;
  [[nodiscard]] Status check_company(const GroupSpec& next) const;
  [[nodiscard]] GroupSpec with(std::vector<GroupCollective> collectives) const;
  void note(const GroupSpec& wanted, const GroupRegistration& made);
  // Those that are not registered yet, each once.
  std::vector<GroupCollective> missing(const std::vector<GroupCollective>& collectives);
  // With mutex_.
  GroupCall next_number(CallKind kind);
  std::vector<QueuedOperation> describe(GroupCall number, std::vector<Part> parts, Duration timeout);
  QueuedOperation describe(Part part, Duration timeout);

  const OwnProcess process_;
  MemberHost& node_;
  GroupSpec group_;  // without collectives
  const std::vector<GroupCollective> first_collectives_;
  const Rank rank_;
  const TimePoint made_at_;
  std::mutex enrolment_;  // held while registering, which may take as long as planning
  std::mutex mutex_;      // of what follows; never held while anything blocks
  bool is_closed_ = false;
  std::uint64_t number_ = 0;                // of the group
  std::shared_ptr<const void> membership_;  // shared with the calls under way
  std::map<CollectiveIdentity, Registered> registered_;
  std::uint64_t call_count_ = 0;  // of operations that all members call
  std::shared_ptr<Arrivals> arrivals_ = std::make_shared<Arrivals>();
  const std::shared_ptr<CallQueue> queue_;
};

}  // namespace square
