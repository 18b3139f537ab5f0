#include "node/groups/groups.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {

bool Collective::has_member(Rank rank) const { return std::ranges::find(ranks, rank) != ranks.end(); }

bool Collective::has_finished(OperationId operation) const {
  return operation.value() < all_finished_below || finished.contains(operation.value());
}

bool Collective::is_near(OperationId operation) const {
  return operation.value() - all_finished_below < kMaxOperationsAhead;
}

void Collective::finish(OperationId operation) {
  finished.insert(operation.value());
  while (finished.erase(all_finished_below) == 1) ++all_finished_below;
}

Status Collective::failed_before(CollectiveId id) const {
  return failed_precondition(
      fmt::format("collective {} failed before ({}); make a new group", id.value(), failure->to_string()));
}

Collective& Groups::set_members(CollectiveId id, const std::string& group, std::vector<Rank> ranks) {
  Collective& collective = collectives_[id];
  collective.group = group;
  collective.ranks = std::move(ranks);
  for (const auto& [other_id, other] : collectives_) {
    if (other.group == group && other.failure && !collective.failure) collective.failure = other.failure;
  }
  return collective;
}

void Groups::learn(const Plan& plan) {
  for (const PlanCollective& planned : plan.collectives) {
    if (planned.group.empty()) continue;
    Collective& collective = collectives_[planned.id];
    if (collective.group.empty()) collective.group = planned.group;
  }
}

std::vector<CollectiveId> Groups::poison(const OperationKey& key, const Status& cause) {
  Collective& collective = collectives_[key.collective];
  if (collective.failure) return {};
  collective.failure = cause;
  collective.failed_operation = key.operation;
  std::vector<CollectiveId> poisoned{key.collective};
  for (auto& [id, other] : collectives_) {
    if (collective.group.empty() || other.group != collective.group || other.failure) continue;
    other.failure = cause;
    poisoned.push_back(id);
  }
  return poisoned;
}

Status Groups::check_life(CollectiveId collective, const Speaker& speaker, std::uint32_t incarnation) {
  auto& lives = collectives_[collective].lives;
  const auto [life, is_new] = lives.try_emplace({speaker.session, speaker.node}, incarnation);
  if (life->second == incarnation) return Status::ok();
  return failed_precondition(
      fmt::format("node \"{}\" was restarted and has lost count of the group's operations; make a new group",
                  speaker.name));
}

}  // namespace square
