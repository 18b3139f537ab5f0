// Whole nodes in one process: gRPC, threads, a controller.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "square/communicator.h"
#include "square/controller.h"
#include "square/node.h"

namespace square::test {

// Long enough for a loaded machine; a test that works never waits for it.
inline constexpr Duration kLimit = std::chrono::seconds(20);

inline Scenario mesh_scenario(const std::vector<std::string>& names, const std::string& policy,
                              double capacity_bps) {
  Scenario scenario;
  scenario.topology = *full_mesh(names, {capacity_bps, Duration(0), 0.0});
  scenario.policy.name = policy;
  return scenario;
}

using Bytes = std::vector<std::byte>;
using Parts = std::vector<Bytes>;  // one for every rank

inline std::vector<std::span<std::byte>> outputs_of(Parts& parts) { return {parts.begin(), parts.end()}; }
inline std::vector<std::span<const std::byte>> inputs_of(const Parts& parts) {
  return {parts.begin(), parts.end()};
}

using Members = std::vector<std::unique_ptr<Communicator>>;

// A controller and one node for each name.
struct Fixture {
  explicit Fixture(std::vector<std::string> node_names, const std::string& policy = "square",
                   double capacity_bps = 200e6)
      : names(std::move(node_names)) {
    auto started = Controller::start({}, mesh_scenario(this->names, policy, capacity_bps));
    REQUIRE_MESSAGE(started.is_ok(), started.status().to_string());
    controller = std::move(started).value();
    for (const std::string& name : this->names) {
      NodeOptions options;
      options.name = name;
      options.controller_address = controller->address();
      auto joined = Node::join(options);
      REQUIRE_MESSAGE(joined.is_ok(), joined.status().to_string());
      nodes.push_back(std::move(joined).value());
    }
  }

  // All members of a group whose rank r lives on nodes[r], made at once.
  Members group(const std::string& name, const std::vector<GroupCollective>& collectives = {}) {
    std::vector<std::size_t> places(nodes.size());
    for (std::size_t place = 0; place < places.size(); ++place) places[place] = place;
    return group_on(places, name, collectives);
  }

  // The same of one whose rank r lives on nodes[places[r]].
  Members group_on(const std::vector<std::size_t>& places, const std::string& name,
                   const std::vector<GroupCollective>& collectives = {}) {
    std::vector<std::string> where;
    for (const std::size_t place : places) where.push_back(names[place]);
    Members members(places.size());
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < places.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto made = Communicator::create(*nodes[places[rank]], {name, "alice", where, collectives},
                                         Rank(rank), kLimit);
        if (made.is_ok()) members[rank] = std::move(made).value();
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& member : members) REQUIRE(member != nullptr);
    return members;
  }

  std::vector<std::string> names;
  std::unique_ptr<Controller> controller;
  std::vector<std::unique_ptr<Node>> nodes;
};

// Every member begins the operation, rank 0 first; then all are waited for.
using Start = std::function<Result<std::shared_ptr<Work>>(Communicator&)>;
inline std::vector<Status> on_all(const Members& members, const Start& start) {
  std::vector<Result<std::shared_ptr<Work>>> works;
  for (const auto& member : members) works.push_back(start(*member));
  std::vector<Status> outcomes;
  for (const auto& work : works) outcomes.push_back(work.is_ok() ? (*work)->wait() : work.status());
  return outcomes;
}

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 131 + seed * 7 + (i >> 9U)) & 0xffU);
  return bytes;
}

}  // namespace square::test
