// The groups that have members on this node: what has finished, what has failed, who speaks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node/operations/operation_key.h"
#include "square/finished_operations.h"
#include "square/group_call.h"
#include "square/ids.h"
#include "square/plan.h"
#include "square/status.h"
#include "trust/block_seal.h"

namespace square {

// How far a frame's operation may be ahead of those that have finished.
inline constexpr std::uint64_t kMaxOperationsAhead = 1'024;

struct Collective {
  std::string group{};  // empty while no member is known
  std::vector<Rank> ranks{};
  std::uint64_t all_finished_below = 0;
  std::set<std::uint64_t> finished{};
  std::optional<Status> failure{};
  std::optional<OperationId> failed_operation{};
  GroupCall failed_call{};  // the group's, if members called it otherwise
  bool is_closed = false;   // members here call nothing more; others may
  // Of the processes that speak in the sessions, as first seen: sources, roots, contributors.
  std::map<std::pair<SessionId, NodeId>, std::uint32_t> lives{};

  [[nodiscard]] bool has_member(Rank rank) const;
  [[nodiscard]] bool has_finished(OperationId operation) const;
  // Not so far ahead that nobody can have called it.
  [[nodiscard]] bool is_near(OperationId operation) const;
  void finish(OperationId operation);
  // Whether it is a late call of what failed: it gets the cause itself.
  [[nodiscard]] bool has_failed_with(OperationId operation, GroupCall call) const;
  // What a call of the others here fails with when this rank has left the group.
  [[nodiscard]] static Status left_before(CollectiveId id, Rank rank, const std::string& node);
  // What the group's next call fails with. Precondition: it has failed.
  [[nodiscard]] Status failed_before(CollectiveId id) const;
  // The same of one that was closed, on this node.
  [[nodiscard]] static Status closed_before(CollectiveId id, const std::string& node);
};

// FAILED_PRECONDITION: another process has the node's name.
Status lost_count(const std::string& node);

// Knows nothing of links and plans. Used on the node's strand; references stay valid.
class Groups {
 public:
  // Made when it is first heard of. Only for those that a live plan knows, or that have members: others
  // would never be forgotten.
  Collective& operator[](CollectiveId collective) { return collectives_[collective]; }
  // Of those of which the members here have finished an operation.
  [[nodiscard]] FinishedOperations finished() const;
  // An empty one for those not heard of.
  [[nodiscard]] const Collective& look(CollectiveId collective) const;
  [[nodiscard]] bool knows(CollectiveId collective) const { return collectives_.contains(collective); }
  [[nodiscard]] std::size_t size() const { return collectives_.size(); }

  // Members call while their group has not failed; it fails as a whole.
  Collective& set_members(CollectiveId collective, const std::string& group, std::vector<Rank> ranks);
  // What another member calls first is of the group, too, before the members here know of it: so they
  // are told of its failure, and their calls are compared with it.
  void learn(const PlanCollective& planned);

  // What the group's blocks are sealed with, until it is closed; null of those of which nothing is known.
  void set_key(const std::string& group, trust::GroupKeyPtr key) { keys_[group] = std::move(key); }
  [[nodiscard]] trust::GroupKeyPtr key_of(CollectiveId collective) const;

  // Members here call nothing more in the group: its collectives have none any more, and what else is
  // said of them is of no group. Gives those that were not closed before.
  std::vector<CollectiveId> close(const std::string& group);
  // One member here calls nothing more in the group, until close().
  void leave(const std::string& group, Rank rank) { left_[group].insert(rank); }
  // The members of the collective that have left its group.
  [[nodiscard]] std::vector<Rank> left_of(CollectiveId collective) const;
  // No frame can be about it any more.
  void forget(CollectiveId collective);

  // After a failure the group's next operation fails on all, whichever collective it is. Gives those
  // that had not failed before, the operation's own first; none if that had.
  std::vector<CollectiveId> poison(const OperationKey& key, const Status& cause, GroupCall call = {});

  // A process that starts to count again would be told that its first operations are done. `speaker`
  // is who speaks in the session, `incarnation` the life that it tells. FAILED_PRECONDITION, naming
  // it, if it was another at first.
  struct Speaker {
    SessionId session;
    NodeId node;
    const std::string& name;
  };
  Status check_life(CollectiveId collective, const Speaker& speaker, std::uint32_t incarnation);

 private:
  void set_group(CollectiveId id, Collective& collective, const std::string& group);

  std::map<CollectiveId, Collective> collectives_;
  std::map<std::string, trust::GroupKeyPtr, std::less<>> keys_;
  std::map<std::string, std::set<Rank>, std::less<>> left_;              // members here, by group
  std::map<std::string, std::set<CollectiveId>, std::less<>> by_group_;  // but for those of none
};

}  // namespace square
