// What a part of a node needs to be tried alone: a clock, a strand, and a transport that writes down.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node/context.h"
#include "node/overlay.h"
#include "node/plan/installed_plan.h"

namespace square::test {

class RecordingTransport final : public Transport {
 public:
  Status start(TransportHandler& /*handler*/) override { return Status::ok(); }
  [[nodiscard]] std::string address() const override { return "nowhere"; }
  LinkHandle open_link(std::string_view peer, std::string_view address) override {
    dialled.push_back(std::string(peer) + "@" + std::string(address));
    return LinkHandle(next_handle_++);
  }
  void send(LinkHandle link, Frame frame) override { sent[link].push_back(std::move(frame)); }
  void set_channels(LinkHandle link, std::size_t channels) override { channels_of[link] = channels; }
  void close_link(LinkHandle link) override { closed.push_back(link); }
  void set_patience(Duration patience) override { patiences.push_back(patience); }
  void stop() override {}

  std::vector<Duration> patiences;
  std::map<LinkHandle, std::vector<Frame>> sent;
  std::vector<std::string> dialled;
  std::map<LinkHandle, std::size_t> channels_of;
  std::vector<LinkHandle> closed;

 private:
  std::uint32_t next_handle_ = 1;
};

struct Alone {
  explicit Alone(const std::string& name, bool paced = false) {
    node->options.name = name;
    node->traffic = TrafficMeter(name);
    node->options.paced = paced;
    node->hold_limit_bytes = node->options.window_bytes / 2;
  }

  // Everything that is due now, and what follows until then.
  void run(Duration time = Duration(0)) {
    const TimePoint end = simulation.clock().now() + time;
    bool is_over = false;
    executor->post_at(end, [this, &is_over] { executor->post([&is_over] { is_over = true; }); });
    simulation.run_until([&] { return is_over; }, end);
  }
  [[nodiscard]] std::shared_ptr<InstalledPlan> install(const std::shared_ptr<const Plan>& plan) const {
    return std::make_shared<InstalledPlan>(plan, node->options.name, node->options.window_bytes / 4);
  }
  // The plan's first collective.
  [[nodiscard]] std::shared_ptr<const InstalledCollective> install_one(
      const std::shared_ptr<const Plan>& plan) const {
    return install(plan)->find(plan->collectives.front().id);
  }

  Simulation simulation{1};
  std::unique_ptr<Executor> executor = simulation.make_executor();
  RecordingTransport transport;
  std::shared_ptr<NodeContext> node{
      new NodeContext{DataPlaneOptions{}, simulation.clock(), transport, *executor}};
};

// n0 -> n1 -> n2, one broadcast from n0 to all.
inline std::shared_ptr<const Plan> line_plan(Epoch epoch = Epoch(1)) {
  PlanBuilder builder(3, epoch);
  builder.add_link(0, 1, kUnlimited);
  builder.add_link(1, 2, kUnlimited);
  builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, 8e6}});
  return builder.build();
}

inline Frame frame_on(const StreamKey& key, FrameType type, std::size_t bytes = 0) {
  Frame frame;
  frame.header.type = type;
  frame.header.epoch = key.epoch;
  frame.header.session = key.session;
  frame.header.stream = key.stream;
  frame.payload = Buffer::copy_of(std::vector<std::byte>(bytes));
  return frame;
}

}  // namespace square::test
