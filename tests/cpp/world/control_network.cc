#include "world/control_network.h"

#include <algorithm>

namespace square::test {
namespace {

constexpr Duration kUsualDelay = std::chrono::milliseconds(5);

}  // namespace

bool ControlNetwork::is_there(const Host& host) const {
  const auto found = processes_.find(host);
  return found != processes_.end() && found->second != nullptr;
}

void ControlNetwork::set_delay(const Host& one, const Host& other, Duration delay) {
  delays_[{one, other}] = delays_[{other, one}] = delay;
}

Duration ControlNetwork::delay(const Host& from, const Host& to) const {
  const auto found = delays_.find({from, to});
  return found == delays_.end() ? kUsualDelay : found->second;
}

void ControlNetwork::set_blocked(const Host& from, const Host& to, bool is_blocked) {
  if (is_blocked) {
    blocked_.insert({from, to});
    return;
  }
  blocked_.erase({from, to});
  for (Message& message : std::exchange(waiting_[{from, to}], {})) arrive(message);
}

void ControlNetwork::carry(std::uint64_t channel, const Host& from, const Host& to, Task task) {
  Message message{channel, from, to, std::move(task)};
  if (is_blocked(from, to)) {
    waiting_[{from, to}].push_back(std::move(message));
  } else {
    arrive(message);
  }
}

void ControlNetwork::arrive(const Message& message) {
  TimePoint& last = last_arrival_[{message.channel, message.to}];
  last = std::max(last, simulation_.clock().now() + delay(message.from, message.to));
  const auto process = processes_.find(message.to);
  if (process == processes_.end() || process->second == nullptr) return;
  process->second->post_at(last, [this, channel = message.channel, task = message.task] {
    if (!ended_.contains(channel)) task();
  });
}

}  // namespace square::test
