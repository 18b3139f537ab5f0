#include "collective/local_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"

namespace square {
namespace {

// Longer times are as good as this one, and can be added to any clock.
constexpr Duration kLongestWait = std::chrono::hours(24 * 30);

std::set<Rank> ranks_on(const GroupSpec& group, const std::string& node) {
  std::set<Rank> ranks;
  for (std::uint32_t rank = 0; rank < group.nodes.size(); ++rank) {
    if (group.nodes[rank] == node) ranks.insert(Rank(rank));
  }
  return ranks;
}

}  // namespace

Result<GroupPart> LocalGroups::join(const GroupSpec& group, Rank member, Duration timeout,
                                    const Register& registers) {
  const auto end = std::chrono::steady_clock::now() + std::clamp(timeout, Duration(0), kLongestWait);
  std::unique_lock lock(mutex_);
  SQUARE_RETURN_IF_ERROR(wait_for_others(lock, group, member, end));
  const auto local = groups_.try_emplace(group.name).first;  // stays, for somebody joins
  ++local->second.joining;
  lock.unlock();
  auto registered = registers(std::max(Duration(0), Duration(end - std::chrono::steady_clock::now())));
  lock.lock();
  --local->second.joining;
  if (registered.is_ok()) {
    local->second.number = registered->number;
    local->second.ranks = ranks_on(group, node_);
    ++local->second.joined[member];
  }
  end_if_closed(local);
  if (!registered.is_ok()) return registered.status();
  const std::shared_ptr<const void> membership(
      nullptr, [weak = weak_from_this(), name = group.name, member](const void*) {
        if (const auto groups = weak.lock()) groups->leave(name, member);
      });
  return GroupPart{*std::move(registered), membership};
}

Status LocalGroups::wait_for_others(std::unique_lock<std::mutex>& lock, const GroupSpec& group, Rank member,
                                    std::chrono::steady_clock::time_point end) {
  const auto is_free = [&] {
    const auto found = groups_.find(group.name);
    return found == groups_.end() || !found->second.closed.contains(member);
  };
  changed_.wait_until(lock, end, [&] { return is_stopped_ || is_free(); });
  if (is_stopped_) return cancelled(fmt::format("node \"{}\" was stopped", node_));
  return is_free() ? Status::ok() : still_open(group.name, member);
}

Status LocalGroups::still_open(const std::string& group, Rank member) const {
  const Local& local = groups_.at(group);
  std::vector<std::uint32_t> others;
  for (const Rank rank : local.ranks) {
    if (!local.closed.contains(rank)) others.push_back(rank.value());
  }
  return deadline_exceeded(fmt::format(
      "rank {} has closed group \"{}\", and the name is free again when these ranks of node \"{}\" "
      "have: {}",
      member.value(), group, node_, fmt::join(others, ", ")));
}

Result<GroupSpec> LocalGroups::regroup(const RegroupRequest& request, Duration timeout, const Asks& asks) {
  const auto end = std::chrono::steady_clock::now() + std::clamp(timeout, Duration(0), kLongestWait);
  RegroupRequest own = request;
  SQUARE_ASSIGN_OR_RETURN(own.ranks, meet(request, end));
  auto next = asks(own, std::max(Duration(0), Duration(end - std::chrono::steady_clock::now())));
  const std::lock_guard lock(mutex_);
  const auto local = groups_.find(request.group);
  if (local == groups_.end()) return next;
  local->second.going_on.erase(request.ranks.front());
  if (local->second.going_on.empty()) local->second.asked.clear();
  if (next.is_ok() && local->second.number == request.number) expect(local->second, *next);
  return next;
}

std::optional<std::set<Rank>> LocalGroups::missing(const RegroupRequest& request) const {
  const auto found = groups_.find(request.group);
  if (found == groups_.end() || found->second.number != request.number) return std::nullopt;
  std::set<Rank> ranks = found->second.ranks;
  std::erase_if(ranks, [&](Rank rank) {
    return found->second.going_on.contains(rank) || found->second.closed.contains(rank);
  });
  return ranks;
}

// All ranks that go on together, or none.
Result<std::vector<Rank>> LocalGroups::meet(const RegroupRequest& request,
                                            std::chrono::steady_clock::time_point end) {
  const Rank member = request.ranks.front();
  std::unique_lock lock(mutex_);
  std::optional<std::set<Rank>> others = missing(request);
  if (others) groups_.at(request.group).going_on.insert(member);
  changed_.notify_all();
  // Its process may be gone while it waits.
  const auto has_left = [&] { return groups_.at(request.group).closed.contains(member); };
  changed_.wait_until(lock, end, [&] {
    if (others) others = missing(request);
    return is_stopped_ || !others || others->empty() || has_left() ||
           !groups_.at(request.group).asked.empty();
  });
  if (is_stopped_) return cancelled(fmt::format("node \"{}\" was stopped", node_));
  if (!others) return failed_precondition(fmt::format("group \"{}\" has ended here", request.group));
  Local& local = groups_.at(request.group);
  if (has_left()) {
    local.going_on.erase(member);
    return cancelled(fmt::format("rank {} has left group \"{}\"", member.value(), request.group));
  }
  if (local.asked.empty() && others->empty())
    std::ranges::set_difference(local.going_on, local.closed, std::back_inserter(local.asked));
  if (!local.asked.empty()) return local.asked;
  local.going_on.erase(member);
  std::vector<std::uint32_t> names;
  for (const Rank rank : *others) names.push_back(rank.value());
  return deadline_exceeded(fmt::format("group \"{}\" cannot go on yet: node \"{}\" waits for its rank {}",
                                       request.group, node_, fmt::join(names, ", ")));
}

void LocalGroups::leave(const std::string& group, Rank member) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (is_stopped_ || found == groups_.end()) return;
  Local& local = found->second;
  if (--local.joined.at(member) > 0) return;
  local.joined.erase(member);
  local.closed.insert(member);
  changed_.notify_all();  // others may go on without it
  if (!std::ranges::includes(local.closed, local.ranks)) leaves_(group, local.number, member);
  miss_next(local, member);
  end_if_closed(found);
}

void LocalGroups::expect(Local& before, const GroupSpec& next) {
  if (!before.next.empty() || next.number == 0) return;
  Local& local = groups_[next.name];
  // Another of that name is not closed yet, or the controller is out of its mind.
  if ((local.number != 0 && local.number != next.number) || &local == &before) return;
  local.number = next.number;
  local.ranks = ranks_on(next, node_);
  before.next = next.name;
  before.next_number = next.number;
  for (std::size_t i = 0; i < next.origin.ranks.size(); ++i) {
    if (next.nodes[i] == node_)
      before.next_ranks.emplace(next.origin.ranks[i], Rank(static_cast<Rank::value_type>(i)));
  }
  for (const Rank rank : before.closed) miss_next(before, rank);
}

void LocalGroups::miss_next(const Local& before, Rank member) {
  const auto rank = before.next_ranks.find(member);
  const auto next = groups_.find(before.next);
  if (rank == before.next_ranks.end() || next == groups_.end()) return;
  Local& local = next->second;
  if (local.number != before.next_number || local.joined.contains(rank->second)) return;
  local.closed.insert(rank->second);
  if (!std::ranges::includes(local.closed, local.ranks)) leaves_(before.next, local.number, rank->second);
  changed_.notify_all();
  end_if_closed(next);
}

void LocalGroups::end_if_closed(Locals::iterator group) {
  const Local& local = group->second;
  if (local.joining > 0 || !std::ranges::includes(local.closed, local.ranks)) return;
  // Under the mutex: who joins again must come after it. Nothing to close where nobody has joined.
  if (!local.ranks.empty() && !is_stopped_) closes_(group->first, local.number);
  groups_.erase(group);
  changed_.notify_all();
}

void LocalGroups::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

std::size_t LocalGroups::size() const {
  const std::lock_guard lock(mutex_);
  return groups_.size();
}

}  // namespace square
