// More streams on one slow link than a transport takes frames.
#include <doctest/doctest.h>

#include "node/links/incoming_link.h"
#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

// A frame leaves its hands only after those before it on the link, and some time.
constexpr Duration kFrameTime = std::chrono::microseconds(100);

class SlowTransport final : public Transport, private TransportHandler {
 public:
  SlowTransport(Simulation& simulation, const std::string& name)
      : clock_(simulation.clock()),
        executor_(simulation.make_executor()),
        wire_(simulation.make_transport(name)) {}

  Status start(TransportHandler& handler) override {
    handler_ = &handler;
    return wire_->start(*this);
  }
  [[nodiscard]] std::string address() const override { return wire_->address(); }
  LinkHandle open_link(std::string_view peer, std::string_view address) override {
    return wire_->open_link(peer, address);
  }
  void send(LinkHandle link, Frame frame) override {
    Hands& hands = hands_[link];
    most = std::max(most, ++hands.frames);
    wire_->send(link, std::move(frame));
  }
  void set_channels(LinkHandle, std::size_t) override {}
  void close_link(LinkHandle link) override { wire_->close_link(link); }
  void stop() override { wire_->stop(); }

  std::size_t most = 0;  // frames of one link in its hands

 private:
  struct Hands {
    std::size_t frames = 0;
    TimePoint free_at{};
  };
  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override {
    handler_->on_link_up(link, end, peer);
  }
  void on_frame(LinkHandle link, Frame frame) override { handler_->on_frame(link, std::move(frame)); }
  void on_sent(LinkHandle link) override {
    Hands& hands = hands_[link];
    hands.free_at = std::max(hands.free_at, clock_.now()) + kFrameTime;
    executor_->post_at(hands.free_at, [this, link] {
      --hands_[link].frames;
      handler_->on_sent(link);
    });
  }
  void on_link_down(LinkHandle link, Status reason) override { handler_->on_link_down(link, reason); }

  const Clock& clock_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Transport> wire_;
  TransportHandler* handler_ = nullptr;
  std::map<LinkHandle, Hands> hands_;
};

struct SlowNode {
  SlowNode(Simulation& simulation, const std::string& name)
      : executor(simulation.make_executor()), transport(simulation, name) {
    DataPlaneOptions options;
    options.name = name;
    node = std::make_unique<DataPlane>(options, simulation.clock(), transport, *executor);
    REQUIRE(node->start().is_ok());
  }
  ~SlowNode() { transport.stop(); }

  std::unique_ptr<Executor> executor;
  SlowTransport transport;
  std::unique_ptr<DataPlane> node;
};

}  // namespace

TEST_CASE("5,000 streams on a slow link that comes up: credit waits for the transport, and operations end") {
  constexpr std::uint32_t kStreams = 5'000;
  Simulation simulation(1);
  SlowNode tail(simulation, "n0");
  SlowNode head(simulation, "n1");
  PlanBuilder builder(2);
  builder.add_link(0, 1, kUnlimited);
  for (std::uint32_t i = 0; i < kStreams; ++i) builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 1e5}});
  const auto plan = builder.build();
  std::size_t installed = 0;
  tail.node->set_address("n1", head.transport.address());
  for (SlowNode* one : {&tail, &head}) {
    one->node->install_plan(plan, [&](Epoch) { ++installed; });
    one->node->activate_plan(plan->epoch);
  }
  const std::vector<std::byte> input(20'000, std::byte{7});
  std::vector<std::vector<std::byte>> outputs;
  std::size_t done = 0;
  for (std::uint32_t i = 0; i < kStreams; i += 500) {
    outputs.emplace_back(input.size());
    for (const bool is_root : {true, false}) {
      DataPlane& node = is_root ? *tail.node : *head.node;
      node.set_members(CollectiveId(i), "g" + std::to_string(i), {Rank(is_root ? 0 : 1)});
      MemberOperation call;
      call.collective = CollectiveId(i);
      call.rank = Rank(is_root ? 0 : 1);
      call.is_root = is_root;
      if (is_root) call.input = input;
      if (!is_root) call.output = outputs.back();
      call.done = [&done](const Status& outcome) { done += outcome.is_ok() ? 1 : 0; };
      node.post(call);
    }
  }
  const TimePoint deadline = simulation.clock().now() + std::chrono::seconds(30);
  CHECK(simulation.run_until([&] { return done == 20; }, deadline));
  CHECK(installed == 2);
  CHECK(head.transport.most > 1);
  CHECK(head.transport.most <= kMaxAnswersInTransport);
  CHECK(tail.transport.most <= kMaxFramesInTransport);
  for (const auto& output : outputs) CHECK(output == input);
}
