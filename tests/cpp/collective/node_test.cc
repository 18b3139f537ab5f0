// A node whose callers do not know that it stops.
#include "square/node.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "collective/real_group.h"
#include "square/controller_client.h"
#include "square/metrics.h"

using namespace square;
using namespace square::test;

namespace {

constexpr int kRounds = 5;
constexpr int kCallers = 3;
constexpr int kWatches = 2'000;

// Runs `call` on several threads until stop() is long over.
template <typename Call>
void stop_under(Node& node, const Call& call) {
  std::atomic<bool> is_over = false;
  std::atomic<int> begun = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      for (int calls = 0; !is_over; ++calls) {
        if (calls == 1) ++begun;
        call();
      }
    });
  }
  while (begun < kCallers) std::this_thread::yield();
  node.stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_over = true;
  for (std::thread& caller : callers) caller.join();
}

MemberOperation operation_without_bytes(std::atomic<int>& ended) {
  MemberOperation operation;
  operation.timeout = kLimit;
  // Told, or dropped: it is over either way.
  const std::shared_ptr<void> end(nullptr, [&ended](void*) { ++ended; });
  operation.done = [end](Status) {};
  return operation;
}

}  // namespace

TEST_CASE("calls of other threads may meet stop(), and every operation ends") {
  for (int round = 0; round < kRounds; ++round) {
    Fixture overlay({"a"});
    std::atomic<int> posted = 0;
    std::atomic<int> ended = 0;
    stop_under(*overlay.nodes[0], [&] {
      ++posted;
      overlay.nodes[0]->post(operation_without_bytes(ended));
    });
    overlay.nodes.clear();
    CHECK(ended == posted);
  }
}

TEST_CASE("watches of other threads may meet stop(), and each is answered") {
  for (int round = 0; round < kRounds; ++round) {
    Fixture overlay({"a"});
    Node& node = *overlay.nodes[0];
    std::atomic<int> asked = 0;
    std::atomic<int> cancelled = 0;
    stop_under(node, [&] {
      // Fewer at once than a node takes; when it stops, others come meanwhile.
      if (asked - cancelled >= kWatches) return std::this_thread::yield();
      ++asked;
      node.watch(CollectiveId(1), OperationId(0), kLimit, [&](const Status& outcome) {
        if (outcome.code() == StatusCode::kCancelled) ++cancelled;
      });
    });
    CHECK(cancelled == asked);
    Status late;
    node.watch(CollectiveId(1), OperationId(0), kLimit, [&](const Status& outcome) { late = outcome; });
    CHECK(late.code() == StatusCode::kCancelled);
    CHECK(late.message().find("node \"a\"") != std::string::npos);
  }
}

TEST_CASE("a receive from any source on a node that stopped ends") {
  Fixture overlay({"a", "b"});
  auto members = overlay.group("g");
  std::vector<std::byte> sent(100);
  std::vector<std::byte> got(100);
  std::thread sender([&] { CHECK(members[1]->send(sent, Rank(0), 3, kLimit).is_ok()); });
  // The node knows the group's collectives from here on.
  CHECK(members[0]->receive_any(got, 3, kLimit).is_ok());
  sender.join();
  const auto running = *members[0]->receive_any_async(got, 3, kLimit);
  overlay.nodes[0]->stop();
  CHECK(running->wait().code() == StatusCode::kCancelled);
  const auto late = members[0]->receive_any_async(got, 3, kLimit);
  if (late.is_ok()) {
    REQUIRE((*late)->wait_for(kLimit));
    CHECK((*late)->wait().code() == StatusCode::kCancelled);
  }
}

TEST_CASE("registrations of other threads may meet stop(), and later ones are refused") {
  for (int round = 0; round < kRounds; ++round) {
    Fixture overlay({"a"});
    Node& node = *overlay.nodes[0];
    const GroupSpec group{"g", "alice", {"a"}, {{}}};
    std::atomic<int> strange = 0;
    stop_under(node, [&] {
      const auto registered = node.register_group(group, kLimit);
      if (!registered.is_ok() && registered.status().code() != StatusCode::kCancelled) ++strange;
    });
    CHECK(strange == 0);
    CHECK(node.register_group(group, kLimit).status().code() == StatusCode::kCancelled);
    CHECK(node.statistics().blocks_sent == 0);
    CHECK(node.metrics().node == "a");
  }
}

TEST_CASE("a registration that nobody answers ends with the node") {
  // An overlay of whoever joins: a registration that names node b waits for it.
  auto controller = Controller::start({}, {});
  REQUIRE(controller.is_ok());
  NodeOptions options;
  options.name = "a";
  options.controller_address = (*controller)->address();
  auto joined = Node::join(options);
  REQUIRE_MESSAGE(joined.is_ok(), joined.status().to_string());
  Node& node = **joined;
  Status outcome;
  const auto begun = std::chrono::steady_clock::now();
  std::thread caller([&] {
    outcome = node.register_group({"g", "alice", {"a", "b"}, {{}}}, std::chrono::minutes(5)).status();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  node.stop();
  caller.join();
  CHECK(outcome.code() == StatusCode::kCancelled);
  CHECK(std::chrono::steady_clock::now() - begun < kLimit);
  node.stop();  // again
}

TEST_CASE("a stop() beside another waits until the node has stopped") {
  Fixture overlay({"a"});
  Node& node = *overlay.nodes[0];
  std::promise<void> reached;
  std::promise<void> go_on;
  auto may_go_on = go_on.get_future();
  // Holds up the strand, and with it the first stop().
  node.watch(CollectiveId(1), OperationId(0), kLimit, [&](const Status&) {
    reached.set_value();
    may_go_on.wait();
  });
  auto first = std::async(std::launch::async, [&] { node.stop(); });
  reached.get_future().wait();
  auto second = std::async(std::launch::async, [&] { node.stop(); });
  CHECK(second.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  go_on.set_value();
  CHECK(second.wait_for(kLimit) == std::future_status::ready);
  CHECK(first.wait_for(kLimit) == std::future_status::ready);
}

TEST_CASE("a callback of the node may begin to stop it") {
  Fixture overlay({"a"});
  Node& node = *overlay.nodes[0];
  std::promise<void> began;
  std::promise<Status> ended;
  node.watch(CollectiveId(1), OperationId(0), kLimit,
             [&](Status outcome) { ended.set_value(std::move(outcome)); });
  node.data_plane().metrics([&](const NodeMetrics&) {
    node.stop();
    began.set_value();
  });
  REQUIRE(began.get_future().wait_for(kLimit) == std::future_status::ready);
  auto outcome = ended.get_future();
  REQUIRE(outcome.wait_for(kLimit) == std::future_status::ready);
  CHECK(outcome.get().code() == StatusCode::kCancelled);
  node.stop();
  CHECK(node.register_group({"g", "alice", {"a"}, {{}}}, kLimit).status().code() == StatusCode::kCancelled);
}

TEST_CASE("a callback that stops a node which another thread stops does not wait") {
  Fixture overlay({"a"});
  Node& node = *overlay.nodes[0];
  node.watch(CollectiveId(1), OperationId(0), kLimit, [&](const Status&) { node.stop(); });
  auto stopping = std::async(std::launch::async, [&] { node.stop(); });
  CHECK(stopping.wait_for(kLimit) == std::future_status::ready);
}
