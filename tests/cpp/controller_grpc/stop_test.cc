// Ends: prompt and clean, with calls in flight.
#include <future>
#include <thread>

#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;

namespace {

constexpr Duration kPrompt = 1s;

template <typename Function>
Duration time_of(Function function) {
  const auto begin = std::chrono::steady_clock::now();
  function();
  return std::chrono::steady_clock::now() - begin;
}

// A registration that cannot end: a node has its plan and does not install it.
struct Pending {
  explicit Pending(Duration patience = 1min) {
    FakeNode::Options by_hand;
    by_hand.installs = false;
    stuck = FakeNode::join(*controller, "a", by_hand);
    caller = FakeNode::join(*controller, "b");
    REQUIRE(caller->wait_for_active(Epoch(1)));
    const auto wait_for_plan = [this] {
      REQUIRE(stuck->wait_for([](const auto& events) {
        return !events.empty() && events.back().kind == FakeNode::Event::Kind::kPlan &&
               events.back().epoch == Epoch(2);
      }));
    };
    const GroupSpec group = broadcast_group("g", {"a", "b"});
    remote = std::async(std::launch::async,
                        [this, group, patience] { return caller->client().register_group(group, patience); });
    wait_for_plan();  // so the caller is at its call, and may leave
    local = std::async(std::launch::async, [this, group] { return controller->register_group(group); });
  }
  std::unique_ptr<Controller> controller = start(mesh({"a", "b"}));
  std::unique_ptr<FakeNode> stuck;
  std::unique_ptr<FakeNode> caller;
  std::future<Result<GroupRegistration>> remote;
  std::future<Result<GroupRegistration>> local;
};

}  // namespace

TEST_CASE("a controller stops at once with calls pending") {
  Pending pending(1s);
  CHECK(time_of([&] { pending.controller->stop(); }) < kPrompt);
  CHECK(pending.local.get().status().code() == StatusCode::kUnavailable);
  // A node waits for the next controller as long as its caller does.
  const Status alone = pending.remote.get().status();
  CHECK(alone.code() == StatusCode::kUnavailable);
  CHECK(alone.message().find("no controller answers at " + pending.controller->address()) !=
        std::string::npos);
  CHECK(pending.controller->register_group(broadcast_group("h", {"a"})).status().code() ==
        StatusCode::kUnavailable);
  CHECK(pending.controller->set_policy({}).status().code() == StatusCode::kUnavailable);
  CHECK(pending.controller->wait_for_nodes({"a"}, kPatience).code() == StatusCode::kUnavailable);
  CHECK(pending.controller->plan() != nullptr);
  pending.controller->stop();
  CHECK(time_of([&] { pending.caller.reset(); }) < kPrompt);
}

TEST_CASE("a client ends at once with calls pending") {
  Pending pending;
  CHECK(time_of([&] { pending.caller->leave(); }) < kPrompt);
  CHECK(pending.remote.get().status().code() == StatusCode::kCancelled);
  // Then comes a plan in which the one that left relays nothing.
  CHECK(eventually([&] {
    pending.stuck->install();
    return pending.local.wait_for(0s) == std::future_status::ready;
  }));
  CHECK(pending.local.get().is_ok());
}

TEST_CASE("a registration ends with its timeout") {
  Pending pending;
  GroupSpec group = broadcast_group("late", {"a", "b"});
  const Status status = pending.caller->client().register_group(group, 100ms).status();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK(status.message().find("\"late\"") != std::string::npos);
  pending.stuck->install();
  CHECK(pending.remote.wait_for(kPatience) == std::future_status::ready);
  pending.controller->stop();  // the other registration waits for the next plan
}

TEST_CASE("a client ends at once while it looks for its controller") {
  auto controller = start(mesh({"a"}));
  const auto a = FakeNode::join(*controller, "a");
  controller.reset();
  std::this_thread::sleep_for(250ms);
  CHECK(time_of([&] { a->leave(); }) < kPrompt);
}

TEST_CASE("controllers and clients come and go") {
  for (int round = 0; round < 10; ++round) {
    const auto controller = start(mesh({"a", "b", "c"}));
    std::vector<std::thread> threads;
    for (const std::string name : {"a", "b", "c"}) {
      threads.emplace_back([&, name] {
        auto node = FakeNode::join(controller->address(), name, {nullptr, true, 300ms, ""});
        if (node.is_ok()) {
          (void)(*node)->client().register_group(broadcast_group(name, {"a", "b", "c"}), 100ms);
        }
      });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10 * round));
    controller->stop();
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_CASE("what is asked of a client that was stopped is refused at once") {
  const auto controller = start(mesh({"a", "b"}));
  const auto a = FakeNode::join(*controller, "a");
  a->client().stop({});
  CHECK(time_of([&] {
          const auto late = a->client().register_group(broadcast_group("g", {"a", "b"}), 1min);
          CHECK(late.status().code() == StatusCode::kCancelled);
          RegroupRequest request;
          request.group = "g";
          CHECK(a->client().regroup(request, 1min).status().code() == StatusCode::kCancelled);
        }) < kPrompt);
}
