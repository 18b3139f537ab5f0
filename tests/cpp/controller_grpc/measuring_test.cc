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
std::unique_ptr<ControllerClient> measuring(const Controller& controller, const std::string& name,
                                            const LinkReport& report, std::atomic<bool>& has_moved) {
  ControllerEvents events;
  events.measured = [report] { return std::vector{report}; };
  events.on_activate = [&has_moved](Epoch, bool moves) { has_moved = has_moved || moves; };
  auto made = ControllerClient::connect({controller.address(), nullptr, name, name + ".example:1", kPatience},
                                        std::move(events));
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  return std::move(*made);
}

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
  std::atomic<bool> has_moved = false;
  const auto node =
      measuring(*controller, "a", {"b", 10ms, 20 * kMbps, false, steady_clock().now()}, has_moved);
  CHECK(comes_true([&] { return planned_between(*controller, "a", "b") == 20 * kMbps; }));
  CHECK(planned_between(*controller, "b", "a") == 100 * kMbps);
  CHECK(comes_true([&] { return has_moved.load(); }));

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
