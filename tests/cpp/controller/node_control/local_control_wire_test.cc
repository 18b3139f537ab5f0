// A node that is the whole overlay: its controller is in the same process.
#include "controller/local_control_wire.h"

#include <doctest/doctest.h>

#include <atomic>

#include "square/controller_client.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

struct LoneNode final : ControlledNode {
  void activate_plan(Epoch epoch, bool /*moves*/) override { active = epoch.value(); }
  void lose_controller(const Status& /*reason*/) override { is_lost = true; }
  std::atomic<std::uint32_t> active = 0;
  std::atomic<bool> is_lost = false;
};

GroupSpec lone_group(const std::string& name, const std::vector<std::string>& nodes) {
  return {name, "alice", nodes, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}}};
}

}  // namespace

TEST_CASE("a node alone registers groups, closes and regroups them, and leaves, without a network") {
  LoneNode node;
  auto made = ControllerClient::alone("a", node);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  ControllerClient& client = **made;
  const auto first = client.register_group(lone_group("g", {"a", "a"}), 20s);
  REQUIRE_MESSAGE(first.is_ok(), first.status().to_string());
  CHECK(node.active >= first->epoch.value());
  client.close_group("g", first->number);
  const auto second = client.register_group(lone_group("g", {"a"}), 20s);
  REQUIRE_MESSAGE(second.is_ok(), second.status().to_string());
  CHECK(second->number > first->number);
  RegroupRequest request;
  request.group = "g";
  request.number = second->number;
  request.ranks = {Rank(0)};
  const auto further = client.regroup(request, 20s);
  CHECK_MESSAGE(further.is_ok(), further.status().to_string());
  const Status late = client.register_group(lone_group("far", {"a", "b"}), 100ms).status();
  CHECK(late.to_string() == "DEADLINE_EXCEEDED: group \"far\" was not planned and installed within 0.1 s");
  client.stop();
  CHECK_FALSE(node.is_lost);
  CHECK(client.register_group(lone_group("g", {"a"}), 20s).status().code() == StatusCode::kCancelled);
}

TEST_CASE("a node alone has a name that others could have, too") {
  LoneNode node;
  const Status refused = ControllerClient::alone("", node).status();
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(refused.message().find("the controller in this process: ") == 0);
}
