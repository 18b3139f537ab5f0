#include "controller_grpc/fixture.h"

#include <algorithm>
#include <thread>

namespace square::test {

GroupSpec broadcast_group(const std::string& name, const std::vector<std::string>& nodes, Rank root) {
  return {name, "alice", nodes, {{CollectiveOp::kBroadcast, root, 1.0, 1'000'000}}};
}

std::unique_ptr<Controller> start(Scenario scenario, ControllerOptions options) {
  auto controller = Controller::start(std::move(options), std::move(scenario));
  REQUIRE_MESSAGE(controller.is_ok(), controller.status().to_string());
  return std::move(*controller);
}

Result<std::unique_ptr<FakeNode>> FakeNode::join(const std::string& controller, const std::string& name,
                                                 Options options) {
  auto node = std::make_unique<FakeNode>();
  node->installs_ = options.installs;
  const std::string address = options.address.empty() ? name + ".example:1" : options.address;
  auto client = ControllerClient::connect(
      {controller, options.identity, name, address, options.connect_timeout}, *node);
  if (!client.is_ok()) return client.status();
  node->client_ = std::move(*client);
  return node;
}

void FakeNode::set_address(const std::string& peer, const std::string& address,
                           std::uint64_t /*incarnation*/) {
  add({Event::Kind::kAddress, peer + "@" + address, Epoch(0), nullptr});
}

void FakeNode::install_plan(const std::shared_ptr<const Plan>& plan,
                            const std::function<void(Epoch)>& installed) {
  const Epoch epoch = plan->epoch;
  if (!installs_) {
    const std::lock_guard lock(mutex_);
    to_install_.emplace_back(epoch, installed);
  }
  add({Event::Kind::kPlan, "", epoch, plan});
  if (installs_) installed(epoch);
}

void FakeNode::activate_plan(Epoch epoch, bool moves) {
  add({Event::Kind::kActivate, moves ? "moves" : "", epoch, nullptr});
}

void FakeNode::lose_controller(const Status& reason) {
  add({Event::Kind::kLost, reason.to_string(), Epoch(0), nullptr});
}

std::unique_ptr<FakeNode> FakeNode::join(const Controller& controller, const std::string& name,
                                         Options options) {
  auto node = join(controller.address(), name, std::move(options));
  REQUIRE_MESSAGE(node.is_ok(), node.status().to_string());
  return std::move(*node);
}

std::unique_ptr<FakeNode> FakeNode::join(const Controller& controller, const std::string& name) {
  return join(controller, name, Options{});
}

void FakeNode::install() {
  std::vector<std::pair<Epoch, std::function<void(Epoch)>>> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(to_install_);
  }
  for (const auto& [epoch, installed] : waiting) installed(epoch);
}

void FakeNode::add(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

std::vector<FakeNode::Event> FakeNode::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

bool FakeNode::wait_for(const std::function<bool(const std::vector<Event>&)>& condition, Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return condition(events_); });
}

bool FakeNode::wait_for_active(Epoch epoch) {
  return wait_for([&](const std::vector<Event>& events) {
    return std::any_of(events.begin(), events.end(), [&](const Event& event) {
      return event.kind == Event::Kind::kActivate && event.epoch >= epoch;
    });
  });
}

bool eventually(const std::function<bool()>& condition, Duration timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

}  // namespace square::test
