// What nodes measure of their links, on its way to the plan and to who asks.
#include <atomic>
#include <functional>
#include <thread>

#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr double kMbps = 1e6;

// A node that measures its link with `peer`.
struct Measuring final : ControlledNode {
  Measuring(const Controller& controller, const std::string& name, LinkReport link)
      : measured(std::move(link)) {
    auto made = ControllerClient::connect(
        {controller.address(), nullptr, name, name + ".example:1", kPatience}, *this);
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    client = std::move(*made);
  }
  NodeReport report() override { return {{}, {measured}, {}}; }
  void activate_plan(Epoch /*epoch*/, bool moves) override { has_moved = has_moved || moves; }

  const LinkReport measured;
  std::atomic<bool> has_moved = false;
  std::unique_ptr<ControllerClient> client;
};

double planned_between(const Controller& controller, const std::string& from, const std::string& to) {
  const auto plan = controller.plan();
  for (const PlanLink& link : plan->links) {
    if (plan->nodes[link.from.index()].name == from && plan->nodes[link.to.index()].name == to)
      return link.capacity_bps;
  }
  return 0;
}

bool comes_true(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!condition() && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(5ms);
  return condition();
}

}  // namespace

TEST_CASE("what a node measures is planned, what runs moves to it, and who asks hears both figures") {
  const auto controller = start(mesh({"a", "b"}));
  const Measuring node(*controller, "a", {"b", 10ms, 20 * kMbps, false, steady_clock().now()});
  CHECK(comes_true([&] { return planned_between(*controller, "a", "b") == 20 * kMbps; }));
  CHECK(planned_between(*controller, "b", "a") == 100 * kMbps);
  CHECK(comes_true([&] { return node.has_moved.load(); }));

  const auto overlay = list_links(controller->address(), nullptr, kPatience);
  REQUIRE(overlay.is_ok());
  CHECK(overlay->topology.node_count() == 2);
  REQUIRE(overlay->links.size() == 2);
  const LinkInformation& link = overlay->links[overlay->links[0].from == "a" ? 0 : 1];
  CHECK(link.given.capacity_bps == 100 * kMbps);
  CHECK(link.measured.capacity_bps == 20 * kMbps);
  CHECK(link.measured.round_trip == 10ms);
  CHECK(link.planned_bps == 20 * kMbps);
  CHECK(link.history.size() == 1);
}
