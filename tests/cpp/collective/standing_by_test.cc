// Controllers that stand by in the processes of a job, until the one before them is gone.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "real_group.h"
#include "square/overlay_information.h"

namespace square {
namespace {

using test::kLimit;
using test::Members;

// Nodes "n0" and so on, each with a controller of its own; all follow the first one's.
struct Job {
  explicit Job(std::uint32_t size) {
    Scenario scenario;
    scenario.policy.name = "exact";
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto made = rank == 0 ? Controller::start({}, scenario) : Controller::stand_by({}, scenario);
      REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
      controllers.push_back(std::move(made).value());
      NodeOptions options;
      options.name = "n" + std::to_string(rank);
      options.controller_address = controllers.front()->address();
      options.successor = controllers.back().get();
      options.standing = rank;
      auto node = Node::join(options);
      REQUIRE_MESSAGE(node.is_ok(), node.status().to_string());
      nodes.push_back(std::move(node).value());
      names.push_back(options.name);
    }
  }

  Members group(const std::string& name) {
    Members members(nodes.size());
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto made = Communicator::create(*nodes[rank], {name, "alice", names, {}}, Rank(rank), kLimit);
        CHECK_MESSAGE(made.is_ok(), made.status().to_string());
        if (made.is_ok()) members[rank] = std::move(made).value();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& member : members) REQUIRE(member != nullptr);
    return members;
  }

  std::vector<std::unique_ptr<Controller>> controllers;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Node>> nodes;  // end first
};

void check_barrier(const Members& members) {
  for (const Status& done :
       test::on_all(members, [](Communicator& member) { return member.barrier_async(kLimit); }))
    CHECK_MESSAGE(done.is_ok(), done.to_string());
}

TEST_CASE("the next controller wakes when the first is gone, and knows what nodes run") {
  Job job(3);
  const Members before = job.group("before");
  check_barrier(before);
  CHECK(job.controllers[1]->stands_by());
  CHECK(job.controllers[1]->nodes().empty());
  CHECK(job.controllers[1]->plan() == nullptr);
  job.controllers[0]->stop();
  check_barrier(before);
  const Members after = job.group("after");
  check_barrier(after);
  check_barrier(before);
  CHECK_FALSE(job.controllers[1]->stands_by());
  CHECK(job.controllers[2]->stands_by());
  CHECK(job.controllers[1]->wait_for_nodes(job.names, kLimit).is_ok());
  for (const auto& node : job.nodes) CHECK(node->controller() == job.controllers[1]->address());
}

TEST_CASE("a controller that stands by serves nobody, and wakes once") {
  auto made = Controller::stand_by({}, {});
  REQUIRE(made.is_ok());
  Controller& controller = **made;
  NodeOptions options;
  options.name = "n";
  options.controller_address = controller.address();
  CHECK(list_nodes(controller.address(), nullptr, kLimit).status().code() == StatusCode::kUnavailable);
  CHECK(controller.register_group({"g", "alice", {"n"}, {}}).status().code() == StatusCode::kUnavailable);
  CHECK(controller.wake().is_ok());
  CHECK(controller.wake().is_ok());
  CHECK_FALSE(controller.stands_by());
  CHECK(Node::join(options).is_ok());
  controller.stop();
  CHECK(controller.wake().code() == StatusCode::kUnavailable);
}

}  // namespace
}  // namespace square
