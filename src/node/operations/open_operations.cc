#include "node/operations/open_operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace square {

OpenOperations::~OpenOperations() {
  for (const auto& [key, operation] : operations_) operation->abandon();
}

OpenOperations::OperationPointer OpenOperations::open(const OperationKey& key,
                                                      const InstalledCollective& collective) {
  if (auto known = find(key)) return known;
  const std::string& tenant = collective.planned().tenant;
  if (!shares_.take(key, tenant)) {
    if (runs(key.collective)) return nullptr;
    shares_.take_besides(key, tenant);
  }
  auto operation = std::make_shared<Operation>(node_, host_, key, collective.planned().op);
  operation->set_member_count(groups_.look(key.collective).ranks.size());
  operations_.emplace(key, operation);
  patience_.begin(key);
  watches_.tell(key, Status::ok());
  waiting_.look();  // a member here may wait for room to call this very operation
  return operation;
}

Status OpenOperations::check_room(const OperationKey& key, const InstalledCollective& collective,
                                  std::size_t bytes) const {
  const std::string& tenant = collective.planned().tenant;
  SQUARE_RETURN_IF_ERROR(quotas_.check(key, tenant, bytes));
  if (find(key) || !runs(key.collective) || shares_.has_room(tenant)) return Status::ok();
  return resource_exhausted(
      fmt::format("tenant \"{}\" has its share of the {} operations that may be open on node \"{}\"", tenant,
                  kMaxOpenOperations, node_->options.name));
}

OpenOperations::OperationPointer OpenOperations::find(const OperationKey& key) const {
  const auto found = operations_.find(key);
  return found == operations_.end() ? nullptr : found->second;
}

void OpenOperations::set_member_count(CollectiveId collective, std::size_t count) {
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (key.collective == collective) operation->set_member_count(count);
  }
}

void OpenOperations::fill(CollectiveId collective, const StreamKey& key) {
  auto next = operations_.lower_bound({collective, OperationId(0)});
  while (next != operations_.end() && next->first.collective == collective) {
    const OperationPointer operation = (next++)->second;
    if (!operation->fill(key)) return;
  }
}

void OpenOperations::fail(CollectiveId collective, const Status& cause) {
  waiting_.end(collective, cause);
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (key.collective == collective) operation->fail(cause, true);
  }
}

void OpenOperations::fail_uncalled(CollectiveId collective, const Status& cause) {
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (key.collective == collective && !operation->has_calls()) operation->fail(cause, true);
  }
}

bool OpenOperations::runs(CollectiveId collective) const {
  const auto next = operations_.lower_bound({collective, OperationId(0)});
  return next != operations_.end() && next->first.collective == collective;
}

void OpenOperations::fail_all(const Status& cause) {
  waiting_.end_all(cause);
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) operation->fail(cause, true);
}

void OpenOperations::shed_after(const OperationKey& key, SessionId session) {
  auto later = operations_.upper_bound(key);
  for (; later != operations_.end() && later->first.collective == key.collective; ++later) {
    later->second->shed(session);
  }
}

void OpenOperations::hurry(const std::function<bool(CollectiveId)>& is_concerned) const {
  for (const auto& [key, operation] : operations_) {
    if (is_concerned(key.collective)) operation->hurry();
  }
}

void OpenOperations::migrate(const InstalledPlan& plan, bool may_stay) {
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (const auto collective = plan.find(key.collective)) {
      operation->migrate(collective, may_stay);
    } else if (operation->runs_before(plan.epoch())) {
      // It could never move, and would hold up whoever waits for the next plan. Where nobody has called
      // nobody is to be told: members elsewhere may have another plan, and those here may call under one to
      // come.
      if (operation->has_calls()) {
        operation->fail(
            not_found(fmt::format("plan {} no longer knows collective {}: its group has ended, or "
                                  "went on without a member that was away",
                                  plan.epoch().value(), key.collective.value())),
            true);
      } else {
        operation->abandon();
        remove(key);
      }
    }
  }
}

void OpenOperations::follow(const InstalledPlan& plan) const {
  const auto operations = operations_;
  for (const auto& [key, operation] : operations) {
    if (const auto collective = plan.find(key.collective)) operation->follow(collective);
  }
}

void OpenOperations::let_go(const InstalledCollective& closed) const {
  for (const auto& [key, operation] : operations_) {
    if (key.collective == closed.id()) operation->let_go(closed.epoch());
  }
}

bool OpenOperations::runs_before(const InstalledPlan& plan) const {
  return std::ranges::any_of(operations_, [&](const auto& entry) {
    const auto collective = plan.find(entry.first.collective);
    return entry.second->runs_before(collective ? collective->epoch() : plan.epoch());
  });
}

}  // namespace square
