#include "node/groups/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

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

bool Collective::has_failed_with(OperationId operation, GroupCall call) const {
  const bool is_call = failed_call.kind != CallKind::kNone && call.kind != CallKind::kNone;
  return failed_operation == operation || (is_call && failed_call.number == call.number);
}

Status Collective::closed_before(CollectiveId id, const std::string& node) {
  return failed_precondition(fmt::format(
      "the group of collective {} was closed on node \"{}\"; make a new group", id.value(), node));
}

Status Collective::left_before(CollectiveId id, Rank rank, const std::string& node) {
  return failed_precondition(
      fmt::format("rank {} on node \"{}\" has closed the group of collective {}, and did not call this "
                  "operation; make a new group",
                  rank.value(), node, id.value()));
}

Status lost_count(const std::string& node) {
  return failed_precondition(fmt::format(
      "node \"{}\" was restarted and has lost count of the group's operations; make a new group", node));
}

FinishedOperations Groups::finished() const {
  FinishedOperations finished;
  for (const auto& [id, collective] : collectives_) {
    if (collective.all_finished_below > 0) finished.emplace(id, collective.all_finished_below);
  }
  return finished;
}

const Collective& Groups::look(CollectiveId collective) const {
  static const Collective kNone;
  const auto found = collectives_.find(collective);
  return found == collectives_.end() ? kNone : found->second;
}

void Groups::set_group(CollectiveId id, Collective& collective, const std::string& group) {
  if (collective.group == group) return;
  if (const auto others = by_group_.find(collective.group); others != by_group_.end()) {
    others->second.erase(id);
    if (others->second.empty()) by_group_.erase(others);
  }
  collective.group = group;
  if (!group.empty()) by_group_[group].insert(id);
}

Collective& Groups::set_members(CollectiveId id, const std::string& group, std::vector<Rank> ranks) {
  Collective& collective = collectives_[id];
  set_group(id, collective, group);
  collective.ranks = std::move(ranks);
  if (collective.failure || group.empty()) return collective;
  for (const CollectiveId other : by_group_[group]) {
    const Collective& failed = collectives_.at(other);
    if (!failed.failure || collective.failure) continue;
    collective.failure = failed.failure;
    collective.failed_call = failed.failed_call;
  }
  return collective;
}

void Groups::learn(const PlanCollective& planned) {
  if (planned.group.empty()) return;
  Collective& collective = collectives_[planned.id];
  if (collective.group.empty() && !collective.is_closed) set_group(planned.id, collective, planned.group);
}

trust::GroupKeyPtr Groups::key_of(CollectiveId collective) const {
  const auto key = keys_.find(look(collective).group);
  return key == keys_.end() ? nullptr : key->second;
}

std::vector<Rank> Groups::left_of(CollectiveId id) const {
  const Collective& collective = look(id);
  const auto left = left_.find(collective.group);
  std::vector<Rank> members;
  if (left == left_.end()) return members;
  std::ranges::copy_if(left->second, std::back_inserter(members),
                       [&](Rank rank) { return collective.has_member(rank); });
  return members;
}

std::vector<CollectiveId> Groups::close(const std::string& group) {
  keys_.erase(group);
  left_.erase(group);
  const auto found = by_group_.find(group);
  if (found == by_group_.end()) return {};
  const std::vector<CollectiveId> closed(found->second.begin(), found->second.end());
  for (const CollectiveId id : closed) {
    Collective& collective = collectives_.at(id);
    set_group(id, collective, "");
    collective.ranks.clear();
    collective.is_closed = true;
  }
  return closed;
}

void Groups::forget(CollectiveId id) {
  const auto found = collectives_.find(id);
  if (found == collectives_.end()) return;
  set_group(id, found->second, "");
  collectives_.erase(found);
}

std::vector<CollectiveId> Groups::poison(const OperationKey& key, const Status& cause, GroupCall call) {
  Collective& collective = collectives_[key.collective];
  if (collective.failure) return {};
  collective.failure = cause;
  collective.failed_operation = key.operation;
  collective.failed_call = call;
  std::vector<CollectiveId> poisoned{key.collective};
  const auto others = by_group_.find(collective.group);
  if (others == by_group_.end()) return poisoned;
  for (const CollectiveId id : others->second) {
    Collective& other = collectives_.at(id);
    if (other.failure) continue;
    other.failure = cause;
    other.failed_call = call;
    poisoned.push_back(id);
  }
  return poisoned;
}

Status Groups::check_life(CollectiveId collective, const Speaker& speaker, std::uint32_t incarnation) {
  auto& lives = collectives_[collective].lives;
  const auto [life, is_new] = lives.try_emplace({speaker.session, speaker.node}, incarnation);
  if (life->second == incarnation) return Status::ok();
  return lost_count(speaker.name);
}

}  // namespace square
