// Two nodes with gateways and a controller, in this process.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gateway/process.h"
#include "square/communicator.h"
#include "square/controller.h"
#include "square/gateway.h"
#include "square/node.h"

namespace square::testing {

inline constexpr Duration kLimit = std::chrono::seconds(20);

inline bool has(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

// Nodes a and b with a gateway each.
struct Site {
  explicit Site(GatewayOptions options = {}, double capacity_bps = 1e9) {
    Scenario scenario;
    scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {capacity_bps, Duration(0), 0.0});
    scenario.policy.name = "exact";  // others plan no sums
    controller = std::move(Controller::start({}, scenario)).value();
    for (const std::string name : {"a", "b"}) {
      NodeOptions joining;
      joining.name = name;
      joining.controller_address = controller->address();
      auto joined = Node::join(joining);
      REQUIRE_MESSAGE(joined.is_ok(), joined.status().to_string());
      nodes.push_back(std::move(joined).value());
      auto served = Gateway::serve(*nodes.back(), options);
      REQUIRE_MESSAGE(served.is_ok(), served.status().to_string());
      gateways.push_back(std::move(served).value());
    }
  }

  [[nodiscard]] std::unique_ptr<AttachedNode> attach(std::size_t node, AttachOptions options = {}) const {
    options.socket_path = gateways[node]->socket_path();
    auto attached = AttachedNode::attach(options);
    REQUIRE_MESSAGE(attached.is_ok(), attached.status().to_string());
    return std::move(attached).value();
  }

  // A member in a process of its own, which runs a skipped test case.
  [[nodiscard]] std::unique_ptr<ChildProcess> member(const std::string& tenant,
                                                     const std::string& nodes_of_ranks, std::uint32_t rank,
                                                     const std::string& calls, bool is_streamed = false,
                                                     const std::string& test_case = "member process") const {
    const std::size_t node = nodes_of_ranks[rank] == 'a' ? 0 : 1;
    return std::make_unique<ChildProcess>(
        test_case, std::map<std::string, std::string>{{"SQUARE_TEST_GATEWAY", gateways[node]->socket_path()},
                                                      {"SQUARE_TEST_TENANT", tenant},
                                                      {"SQUARE_TEST_NODES", nodes_of_ranks},
                                                      {"SQUARE_TEST_RANK", std::to_string(rank)},
                                                      {"SQUARE_TEST_CALLS", calls},
                                                      {"SQUARE_TEST_STREAMED", is_streamed ? "1" : ""}});
  }

  // Waits until the gateway has that many operations.
  [[nodiscard]] bool holds(std::size_t node, std::size_t operations) const {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (gateways[node]->statistics().operations != operations) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  // Waits until the gateway holds no more than that.
  [[nodiscard]] bool settles(std::size_t node, std::size_t attachments) const {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < end) {
      const auto now = gateways[node]->statistics();
      if (now.attachments == attachments && now.operations == 0 && now.staging_bytes == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  std::unique_ptr<Controller> controller;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Gateway>> gateways;
};

inline std::unique_ptr<Communicator> join(MemberHost& host, const GroupSpec& group, std::uint32_t rank) {
  auto made = Communicator::create(host, group, Rank(rank), kLimit);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  return std::move(made).value();
}

}  // namespace square::testing
