// What nodes say of themselves and of one another when somebody examines the overlay.
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "../trust/issued.h"
#include "collective/examination/system_files.h"
#include "square/controller.h"
#include "square/node.h"
#include "square/overlay_information.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

constexpr Duration kPatience = 20s;

std::unique_ptr<Controller> open_controller(std::shared_ptr<Identity> identity = nullptr) {
  ControllerOptions options;
  options.identity = std::move(identity);
  Scenario scenario;
  scenario.name = "overlay";
  auto controller = Controller::start(options, scenario);
  REQUIRE_MESSAGE(controller.is_ok(), controller.status().to_string());
  return std::move(*controller);
}

std::unique_ptr<Node> join(const Controller& controller, const std::string& name,
                           const std::string& advertised = {}) {
  NodeOptions options;
  options.name = name;
  options.controller_address = controller.address();
  options.advertised_address = advertised;
  auto node = Node::join(options);
  REQUIRE_MESSAGE(node.is_ok(), node.status().to_string());
  return std::move(*node);
}

bool says(const ExaminedNode& node, const std::string& text) {
  return node.report_json.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("examined: nodes reach one another, and say what their hosts give them") {
  const auto controller = open_controller();
  const auto a = join(*controller, "a");
  const auto b = join(*controller, "b", "127.0.0.1:1");
  const auto found = examine(controller->address(), {}, kPatience);
  REQUIRE_MESSAGE(found.is_ok(), found.status().to_string());
  REQUIRE(found->nodes.size() == 2);
  const ExaminedNode& first = found->nodes[0].name == "a" ? found->nodes[0] : found->nodes[1];
  const ExaminedNode& second = found->nodes[0].name == "a" ? found->nodes[1] : found->nodes[0];
  CHECK(first.answered);
  CHECK(second.answered);
  CHECK(first.peers == std::vector<std::string>{"b"});
  CHECK(says(first, R"("outcome":"refused")"));
  CHECK(says(second, R"("outcome":"reached")"));
  for (const char* const part : {"descriptors", "available_bytes", "congestion", "share", "boot"}) {
    CHECK(says(first, part));
  }
  CHECK(first.clock_doubt >= Duration{0});
  CHECK(first.clock_ahead <= first.clock_doubt);
  CHECK(first.clock_ahead >= -first.clock_doubt);
}

TEST_CASE("examined: only who is believed may ask, and several may at once") {
  const testing::Issuer issuer;
  const testing::Issuer stranger;
  const auto controller = open_controller(issuer.identity(Role::kController, "c"));
  CHECK_FALSE(examine(controller->address(), stranger.node("a"), kPatience).is_ok());
  const auto nobody = examine(controller->address(), issuer.node("a"), kPatience);
  CHECK(examine(controller->address(), issuer.identity(Role::kTenant, "alice"), kPatience).status().code() ==
        StatusCode::kPermissionDenied);
  REQUIRE(nobody.is_ok());
  CHECK(nobody->nodes.empty());
  const auto open = open_controller();
  const auto a = join(*open, "a");
  const auto ask = [&] { return examine(open->address(), {}, kPatience); };
  auto other = std::async(std::launch::async, ask);
  const auto own = ask();
  const auto others = other.get();
  REQUIRE(own.is_ok());
  REQUIRE(others.is_ok());
  CHECK(own->nodes[0].answered);
  CHECK(others->nodes[0].answered);
}

TEST_CASE("examined: a node and a controller that stop meanwhile wait for nobody") {
  const auto controller = open_controller();
  auto a = join(*controller, "a");
  auto asked = std::async(std::launch::async, [&] { return examine(controller->address(), {}, kPatience); });
  // The node measures for longer than that.
  std::this_thread::sleep_for(100ms);
  a.reset();
  controller->stop();
  const auto begin = std::chrono::steady_clock::now();
  const auto found = asked.get();
  CHECK(std::chrono::steady_clock::now() - begin < kPatience);
  // It may have been asked when the node had left already.
  if (!found.is_ok()) CHECK(found.status().code() == StatusCode::kUnavailable);
}

TEST_CASE("examined: files of the system are read as far as they go") {
  using namespace square::examination;
  CHECK(read_text("/no/such/file").empty());
  CHECK(read_words("/no/such/file").empty());
  CHECK_FALSE(read_field("/no/such/file", "key").has_value());
  CHECK(to_number("12.5\n").value() == 12.5);
  CHECK_FALSE(to_number("max").has_value());
  CHECK(read_field("/proc/meminfo", "MemTotal:").value() > 0);
  CHECK_FALSE(control_groups().empty());
}
