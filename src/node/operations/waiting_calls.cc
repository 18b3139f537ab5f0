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

void WaitingCalls::add(MemberOperation call, const Status& lacks) {
  const TimePoint now = clock_.now();
  const TimePoint deadline = call.timeout < TimePoint::max() - now ? now + call.timeout : TimePoint::max();
  const OperationKey key{call.collective, call.operation};
  const auto timer = executor_.post_at(
      deadline, life_.bind([this, key, rank = call.rank, timeout = call.timeout, what = lacks.message()] {
        on_timeout(key, rank, timeout, what);
      }));
  waiting_[key.collective].push_back({std::move(call), deadline, timer});
}

bool WaitingCalls::has(const OperationKey& key) const {
  const auto found = waiting_.find(key.collective);
  return found != waiting_.end() && std::ranges::any_of(found->second, [&](const Waiting& one) {
           return one.call.operation == key.operation;
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
  std::vector<CollectiveId> collectives;
  for (const auto& [collective, calls] : waiting_) collectives.push_back(collective);
  for (const CollectiveId collective : collectives) {
    for (;;) {
      const auto found = waiting_.find(collective);  // a call that fails ends others
      if (found == waiting_.end()) break;
      Waiting& next = found->second.front();
      MemberOperation call = next.call;
      call.timeout = std::max(kLeastTime, next.deadline - clock_.now());
      const auto timer = next.timer;
      // Not there any more when it begins: it may fail, and end those behind it.
      Waiting taken = std::move(next);
      found->second.pop_front();
      if (found->second.empty()) waiting_.erase(found);
      if (host_.begin(call)) {
        executor_.cancel(timer);
        continue;
      }
      waiting_[collective].push_front(std::move(taken));
      break;
    }
  }
}

void WaitingCalls::end(CollectiveId collective, const Status& cause) {
  auto ended = waiting_.extract(collective);
  if (!ended) return;
  for (Waiting& one : ended.mapped()) {
    executor_.cancel(one.timer);
    if (one.call.done) one.call.done(cause);
  }
}

void WaitingCalls::end_all(const Status& cause) {
  while (!waiting_.empty()) end(waiting_.begin()->first, cause);
}

void WaitingCalls::on_timeout(const OperationKey& key, Rank rank, Duration timeout,
                              const std::string& lacks) {
  host_.fail(key, deadline_exceeded(fmt::format("rank {} on node \"{}\" timed out after {:.1f} s: the call "
                                                "waited for room; {}",
                                                rank.value(), node_, to_seconds(timeout), lacks)));
}

}  // namespace square
