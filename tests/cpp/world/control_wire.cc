#include "world/control_wire.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace square::test {
namespace {

// As in controller_client.cc.
constexpr Duration kKeepaliveTime = std::chrono::seconds(2);
constexpr Duration kKeepaliveTimeout = std::chrono::seconds(3);
constexpr Duration kShortKeepaliveTime = std::chrono::seconds(1);
constexpr Duration kShortKeepaliveTimeout = std::chrono::milliseconds(1500);
constexpr Duration kConnectTime = std::chrono::seconds(5);
constexpr Duration kRefusalTime = std::chrono::milliseconds(10);

}  // namespace

void SimulatedControlWire::later(Duration wait, Executor::Task task) {
  executor_.post_at(clock_.now() + wait, std::move(task));
}

SimulatedControlWire::Connection* SimulatedControlWire::find(Number connection) {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : &found->second;
}

void SimulatedControlWire::dial(Number connection, const std::string& address) {
  ControllerProcess& controller = *controllers_.at(address);
  const std::uint64_t channel = network_.open();
  connections_[connection] = {channel, &controller};
  later(kConnectTime, [this, connection] {
    if (const Connection* const dialled = find(connection); dialled != nullptr && !dialled->is_up)
      end(connection, unavailable("no answer"));
  });
  if (network_.is_refused(node_, address))
    return later(kRefusalTime,
                 [this, connection] { end(connection, unavailable(std::strerror(ECONNREFUSED))); });
  ControllerProcess::Connection ends;
  ends.node = node_;
  ends.number = channel;
  ends.brings_successor = has_successor_;
  ends.on_event = [this, alive = std::weak_ptr(alive_), connection](const v1::ControllerEvent& event) {
    if (alive.lock() && find(connection) != nullptr) events_.heard(connection, event);
  };
  ends.on_end = [this, alive = std::weak_ptr(alive_), connection](const Status& reason) {
    if (alive.lock()) end(connection, reason);
  };
  const auto is_up = [this, alive = std::weak_ptr(alive_), connection] {
    if (alive.lock()) up(connection);
  };
  network_.carry(channel, node_, address, [&network = network_, &controller, ends, is_up] {
    controller.accept(ends);
    network.carry(ends.number, controller.address(), ends.node, is_up);
  });
}

void SimulatedControlWire::up(Number connection) {
  Connection* const dialled = find(connection);
  if (dialled == nullptr) return;
  dialled->is_up = true;
  for (const v1::NodeEvent& event : std::exchange(dialled->waiting, {})) carry(*dialled, event);
  ping(connection);
}

void SimulatedControlWire::send(Number connection, const v1::NodeEvent& event) {
  Connection* const there = find(connection);
  if (there == nullptr) return;
  there->is_up ? carry(*there, event) : there->waiting.push_back(event);
}

void SimulatedControlWire::carry(const Connection& connection, const v1::NodeEvent& event) {
  network_.carry(connection.channel, node_, connection.controller->address(),
                 [&controller = *connection.controller, channel = connection.channel, event] {
                   controller.hear(channel, event);
                 });
}

std::size_t SimulatedControlWire::waiting(Number connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? 0 : found->second.waiting.size();
}

// Keepalive: who does not answer for long is gone.
void SimulatedControlWire::ping(Number connection) {
  Connection* const there = find(connection);
  if (there == nullptr) return;
  const std::uint64_t number = ++there->pings;
  const std::uint64_t channel = network_.open();
  const auto pong = [this, alive = std::weak_ptr(alive_), connection, number] {
    if (!alive.lock()) return;
    if (Connection* const heard = find(connection)) heard->pongs = std::max(heard->pongs, number);
  };
  // The process that is there now may know nothing of the connection.
  const auto reset = [this, alive = std::weak_ptr(alive_), connection] {
    if (alive.lock()) end(connection, unavailable("connection reset by peer"));
  };
  network_.carry(channel, node_, there->controller->address(),
                 [&network = network_, &controller = *there->controller, pinged = there->channel, channel,
                  node = node_, pong, reset] {
                   const bool is_known = controller.has(pinged);
                   network.carry(channel, controller.address(), node,
                                 is_known ? ControlNetwork::Task(pong) : ControlNetwork::Task(reset));
                 });
  later(has_several_ ? kShortKeepaliveTimeout : kKeepaliveTimeout, [this, connection, number] {
    if (const Connection* const silent = find(connection); silent != nullptr && silent->pongs < number)
      end(connection, unavailable("keepalive timeout"));
  });
  later(has_several_ ? kShortKeepaliveTime : kKeepaliveTime, [this, connection] { ping(connection); });
}

void SimulatedControlWire::end(Number connection, const Status& reason) {
  if (find(connection) == nullptr) return;
  close(connection);
  events_.ended(connection, reason);
}

void SimulatedControlWire::close(Number connection) {
  const Connection* const there = find(connection);
  if (there == nullptr) return;
  tell_of_end(*there);
  connections_.erase(connection);
}

void SimulatedControlWire::tell_of_end(const Connection& connection) {
  network_.carry(
      connection.channel, node_, connection.controller->address(),
      [&controller = *connection.controller, channel = connection.channel] { controller.lose(channel); });
}

void SimulatedControlWire::break_connections(const std::optional<std::string>& controller) {
  std::vector<Number> broken;
  for (const auto& [number, connection] : connections_) {
    if (!controller || connection.controller->address() == *controller) broken.push_back(number);
  }
  for (const Number number : broken) end(number, unavailable("connection reset by peer"));
}

void SimulatedControlWire::reset() {
  while (!connections_.empty()) close(connections_.begin()->first);
}

template <typename Request, typename Response>
void SimulatedControlWire::ask_controller(Number connection, Number call, const Request& question,
                                          Answered<Response> answered) {
  const Connection* const there = find(connection);
  if (there == nullptr) return;
  calls_.insert(call);
  const auto heard = [this, alive = std::weak_ptr(alive_), call,
                      answered = std::move(answered)](const Result<Response>& answer) {
    if (alive.lock() && calls_.erase(call) != 0) answered(answer);
  };
  const std::uint64_t channel = network_.open();
  network_.carry(channel, node_, there->controller->address(),
                 [&controller = *there->controller, to = there->channel, channel, question, heard] {
                   controller.call(to, channel, question, heard);
                 });
}

void SimulatedControlWire::ask(Number connection, Number call, const v1::RegisterGroupRequest& question,
                               TimePoint /*end*/, Answered<v1::RegisterGroupResponse> answered) {
  ask_controller(connection, call, question, std::move(answered));
}

void SimulatedControlWire::ask(Number connection, Number call, const v1::RegroupRequest& question,
                               TimePoint /*end*/, Answered<v1::RegroupResponse> answered) {
  ask_controller(connection, call, question, std::move(answered));
}

void SimulatedControlWire::ask(Number connection, Number call, const v1::ListKeySharesRequest& question,
                               TimePoint /*end*/, Answered<v1::ListKeySharesResponse> answered) {
  ask_controller(connection, call, question, std::move(answered));
}

}  // namespace square::test
