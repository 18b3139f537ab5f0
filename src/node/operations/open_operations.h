// The operations that run on this node.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>

#include "node/context.h"
#include "node/groups/groups.h"
#include "node/groups/watches.h"
#include "node/operations/operation.h"
#include "node/operations/operation_key.h"
#include "node/operations/patience.h"
#include "node/operations/quotas.h"
#include "node/operations/shares.h"
#include "node/operations/waiting_calls.h"
#include "node/plan/installed_plan.h"

namespace square {

// Operations that may be open on a node at once, posted or announced by frames; one tenant alone may have
// half. The first of each collective may be open besides: so every collective makes progress.
inline constexpr std::size_t kMaxOpenOperations = 8'192;

// Used on the node's strand. What is called for many operations goes over a copy of them, since an
// operation that ends leaves.
class OpenOperations {
 public:
  using OperationPointer = std::shared_ptr<Operation>;

  OpenOperations(std::shared_ptr<NodeContext> node, OperationHost& host, Groups& groups, Watches& watches,
                 WaitingCalls& waiting)
      : node_(std::move(node)),
        host_(host),
        groups_(groups),
        watches_(watches),
        waiting_(waiting),
        patience_(*node_) {}
  // They end without a word: the node goes away.
  ~OpenOperations();
  OpenOperations(const OpenOperations&) = delete;
  OpenOperations& operator=(const OpenOperations&) = delete;

  // The one that runs, or a new one of this collective: members who watch for it are told. None if too many
  // run, or its tenant has its share of them, and the collective has others that run.
  OperationPointer open(const OperationKey& key, const InstalledCollective& collective);
  [[nodiscard]] OperationPointer find(const OperationKey& key) const;
  [[nodiscard]] const std::map<OperationKey, OperationPointer>& all() const { return operations_; }
  // Whether any is open, or waits to be.
  [[nodiscard]] bool has(CollectiveId collective) const {
    return runs(collective) || waiting_.has(collective);
  }
  [[nodiscard]] bool empty() const { return operations_.empty(); }
  void remove(const OperationKey& key) {
    operations_.erase(key);
    shares_.give_back(key);
    quotas_.end(key);
    patience_.end(key);
    waiting_.look();
  }
  // Of the plan that was installed last.
  void set_quotas(const Plan& plan) {
    quotas_.set(plan);
    waiting_.look();
  }
  // Whether the members here may ever call an operation on so many bytes, all of them together. Errors:
  // RESOURCE_EXHAUSTED.
  [[nodiscard]] Status check_size(const InstalledCollective& collective, std::size_t bytes) const {
    return quotas_.check_size(collective.planned().tenant, bytes);
  }
  // Whether they may call it now. Errors: RESOURCE_EXHAUSTED with what there is too much of.
  [[nodiscard]] Status check_room(const OperationKey& key, const InstalledCollective& collective,
                                  std::size_t bytes) const;
  // The first member has called it; `bytes` are those of all members here together.
  void on_call(const OperationKey& key, const InstalledCollective& collective, double fastest_link_bps,
               std::size_t bytes) {
    quotas_.add(key, collective.planned().tenant, bytes);
    patience_.set(key, pace_of(collective, fastest_link_bps, bytes));
  }

  void on_frame() { patience_.on_frame(); }
  // A block came of an operation that no member here takes part in.
  void on_relayed() { patience_.on_relayed(); }

  void set_member_count(CollectiveId collective, std::size_t count);
  // Puts blocks on a stream that starts here, the oldest operation first.
  void fill(CollectiveId collective, const StreamKey& key);
  // Ends those of the collective, or all, and tells the other members.
  void fail(CollectiveId collective, const Status& cause);
  // The same of those that no member here has called.
  void fail_uncalled(CollectiveId collective, const Status& cause);
  void fail_all(const Status& cause);
  // What later operations have in the session must not hold this one up.
  void shed_after(const OperationKey& key, SessionId session);
  // A link came back that these collectives use: what was lost on it is to be found soon.
  void hurry(const std::function<bool(CollectiveId)>& is_concerned) const;
  // To their collectives as the plan has them, where those are newer.
  void migrate(const InstalledPlan& plan, bool may_stay);
  // Those whose rates change go on at the plan's, where that costs nothing.
  void follow(const InstalledPlan& plan) const;
  // Nothing comes any more as no live plan has the collective.
  void let_go(const InstalledCollective& closed) const;
  // Whether one runs in a collective as it was before this plan had it.
  [[nodiscard]] bool runs_before(const InstalledPlan& plan) const;

 private:
  [[nodiscard]] bool runs(CollectiveId collective) const;

  std::shared_ptr<NodeContext> node_;
  OperationHost& host_;
  Groups& groups_;
  Watches& watches_;
  WaitingCalls& waiting_;
  Patience patience_;
  Shares shares_{kMaxOpenOperations};
  Quotas quotas_;
  std::map<OperationKey, OperationPointer> operations_;
};

}  // namespace square
