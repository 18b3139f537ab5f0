#include "collective/arrivals.h"

#include "square/clock.h"

namespace square {

void Arrivals::listen(MemberHost& host, const Message& message, Duration timeout,
                      std::shared_ptr<Listener> listener) {
  const TimePoint now = steady_clock().now();
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  {
    const std::lock_guard lock(mutex_);
    const auto [place, is_first] = waiting_.try_emplace({message.collective, message.operation});
    Waiting& waiting = place->second;
    std::erase_if(waiting.listeners, [](const auto& other) { return !other->is_waiting(); });
    waiting.listeners.push_back(std::move(listener));
    if (!is_first && waiting.deadline <= deadline) return;
    waiting.deadline = deadline;
  }
  host.watch(message.collective, message.operation, timeout,
             [self = shared_from_this(), message](const Status& outcome) { self->tell(message, outcome); });
}

void Arrivals::tell(const Message& message, const Status& outcome) {
  std::vector<std::shared_ptr<Listener>> told;
  {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find({message.collective, message.operation});
    if (found == waiting_.end()) return;
    told = std::move(found->second.listeners);
    waiting_.erase(found);
  }
  for (const auto& listener : told) listener->on_arrival(message, outcome);
}

}  // namespace square
