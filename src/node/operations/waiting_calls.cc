#include "node/operations/waiting_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace square {
namespace {

// What a call has left that began as its time ended.
constexpr Duration kLeastTime = std::chrono::nanoseconds(1);

}  // namespace

void WaitingCalls::add(const std::string& group, MemberOperation call, const Status& lacks) {
  const TimePoint now = clock_.now();
  const TimePoint deadline = call.timeout < TimePoint::max() - now ? now + call.timeout : TimePoint::max();
  const OperationKey key{call.collective, call.operation};
  const auto timer = executor_.post_at(
      deadline, life_.bind([this, key, rank = call.rank, timeout = call.timeout, what = lacks.message()] {
        on_timeout(key, rank, timeout, what);
      }));
  waiting_[group].push_back({std::move(call), deadline, timer});
}

template <typename Test>
bool WaitingCalls::any(const Test& test) const {
  return std::ranges::any_of(waiting_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second, [&](const Waiting& one) { return test(one.call); });
  });
}

bool WaitingCalls::has(CollectiveId collective) const {
  return any([&](const MemberOperation& call) { return call.collective == collective; });
}

bool WaitingCalls::has(const OperationKey& key) const {
  return any([&](const MemberOperation& call) {
    return call.collective == key.collective && call.operation == key.operation;
  });
}

void WaitingCalls::look() {
  if (waiting_.empty() || std::exchange(is_looking_, true)) return;
  executor_.post(life_.bind([this] {
    is_looking_ = false;
    begin_waiting();
  }));
}

void WaitingCalls::begin_waiting() {
  std::vector<std::string> groups;
  for (const auto& [group, calls] : waiting_) groups.push_back(group);
  for (const std::string& group : groups) begin_waiting(group);
}

void WaitingCalls::begin_waiting(const std::string& group) {
  for (;;) {
    const auto found = waiting_.find(group);  // a call that fails ends others
    if (found == waiting_.end()) return;
    // Not there any more when it begins: it may fail, and end those behind it.
    Waiting taken = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) waiting_.erase(found);
    MemberOperation call = taken.call;
    call.timeout = std::max(kLeastTime, taken.deadline - clock_.now());
    const auto timer = taken.timer;
    if (!host_.begin(call)) {
      waiting_[group].push_front(std::move(taken));
      return;
    }
    executor_.cancel(timer);
  }
}

void WaitingCalls::end(CollectiveId collective, const Status& cause) {
  std::vector<Waiting> ended;
  for (auto& [group, calls] : waiting_) {
    std::erase_if(calls, [&](Waiting& one) {
      if (one.call.collective != collective) return false;
      ended.push_back(std::move(one));
      return true;
    });
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  for (const Waiting& one : ended) end(one, cause);
}

void WaitingCalls::end_all(const Status& cause) {
  for (const auto& [group, calls] : std::exchange(waiting_, {})) {
    for (const Waiting& one : calls) end(one, cause);
  }
}

void WaitingCalls::end(const Waiting& one, const Status& cause) {
  executor_.cancel(one.timer);
  if (one.call.done) one.call.done(cause);
}

void WaitingCalls::on_timeout(const OperationKey& key, Rank rank, Duration timeout,
                              const std::string& lacks) {
  host_.fail(key, deadline_exceeded(fmt::format("rank {} on node \"{}\" timed out after {:.1f} s: the call "
                                                "waited for room; {}",
                                                rank.value(), node_, to_seconds(timeout), lacks)));
}

}  // namespace square
