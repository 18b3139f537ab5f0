#include "collective/arrivals.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {

Status Arrivals::enter(std::uint32_t channel, const std::shared_ptr<Listener>& listener,
                       std::size_t max_waiting) {
  std::shared_ptr<Listener> begins;
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[channel];
    if (line.listeners.size() >= max_waiting) {
      return resource_exhausted(fmt::format(
          "{} receives from any source wait, as many as may: the call was not made; wait for some "
          "of them and make it again",
          line.listeners.size()));
    }
    line.listeners.push_back(listener);
    line.deadlines.insert(listener->deadline());
    // The first one listens until the earliest deadline of all.
    if (*line.deadlines.begin() == listener->deadline()) begins = line.listeners.front();
  }
  if (begins) begins->begin();
  return Status::ok();
}

void Arrivals::go_on(std::uint32_t channel) {
  std::shared_ptr<Listener> next;
  {
    const std::lock_guard lock(mutex_);
    const auto line = lines_.find(channel);
    if (line == lines_.end()) return;
    auto& [listeners, deadlines] = line->second;
    while (!listeners.empty() && !listeners.front()->is_waiting()) {
      deadlines.erase(deadlines.find(listeners.front()->deadline()));
      listeners.pop_front();
    }
    if (listeners.empty()) {
      lines_.erase(line);
    } else {
      next = listeners.front();
    }
  }
  if (next) next->begin();
}

TimePoint Arrivals::first_deadline(std::uint32_t channel) {
  const std::lock_guard lock(mutex_);
  const auto line = lines_.find(channel);
  return line == lines_.end() ? TimePoint::max() : *line->second.deadlines.begin();
}

std::vector<std::shared_ptr<Arrivals::Listener>> Arrivals::take(std::uint32_t channel) {
  const std::lock_guard lock(mutex_);
  const auto line = lines_.extract(channel);
  if (!line) return {};
  return {line.mapped().listeners.begin(), line.mapped().listeners.end()};
}

void Arrivals::listen(MemberHost& host, const Message& message, TimePoint deadline,
                      std::shared_ptr<Listener> listener) {
  {
    const std::lock_guard lock(mutex_);
    const auto [place, is_first] = waiting_.try_emplace({message.collective, message.operation});
    Waiting& waiting = place->second;
    std::erase_if(waiting.listeners,
                  [&](const auto& other) { return other == listener || !other->is_waiting(); });
    waiting.listeners.push_back(std::move(listener));
    if (!is_first && waiting.deadline <= deadline) return;
    waiting.deadline = deadline;
  }
  host.watch(message.collective, message.operation, std::max(Duration(0), deadline - host.clock().now()),
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
