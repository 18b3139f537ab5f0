// A node's side of control under virtual time: the test is the wire, and says what the controller says.
#include "controller/node_control/node_control.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "controller/protocol.h"
#include "square/log.h"
#include "square/simulation.h"

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;

namespace {

// Keeps what the node says, and what it asks until the test answers.
struct Wire final : ControlWire {
  using ControlWire::events_;
  struct Dialled {
    std::string address;
    std::vector<v1::NodeEvent> said{};
    bool is_closed = false;
  };
  void dial(Number connection, const std::string& address) override { dialled[connection] = {address}; }
  void send(Number connection, const v1::NodeEvent& event) override {
    dialled.at(connection).said.push_back(event);
  }
  [[nodiscard]] std::size_t waiting(Number /*connection*/) const override { return unsent; }
  void close(Number connection) override { dialled.at(connection).is_closed = true; }
  void ask(Number /*connection*/, Number call, const v1::RegisterGroupRequest& /*question*/,
           TimePoint /*end*/, Answered<v1::RegisterGroupResponse> answered) override {
    registrations[call] = std::move(answered);
  }
  void ask(Number /*connection*/, Number call, const v1::RegroupRequest& question, TimePoint /*end*/,
           Answered<v1::RegroupResponse> answered) override {
    regroupings[call] = {question, std::move(answered)};
  }
  void ask(Number, Number, const v1::ListKeySharesRequest&, TimePoint,
           Answered<v1::ListKeySharesResponse>) override {}
  void cancel(Number call) override {
    registrations.erase(call);
    regroupings.erase(call);
  }

  std::size_t unsent = 0;
  std::map<Number, Dialled> dialled;
  std::map<Number, Answered<v1::RegisterGroupResponse>> registrations;
  std::map<Number, std::pair<v1::RegroupRequest, Answered<v1::RegroupResponse>>> regroupings;
};

v1::RegisterGroupResponse response_of(std::uint64_t number, std::uint32_t epoch) {
  v1::RegisterGroupResponse response;
  response.add_collectives(3);
  response.set_epoch(epoch);
  response.set_number(number);
  return response;
}

struct Node {
  explicit Node(std::vector<std::string> controllers = {"c:1"}) {
    NodeControlOptions options;
    options.node_name = "a";
    options.node_address = "a:1";
    options.controllers = std::move(controllers);
    control = std::make_unique<NodeControl>(wire, simulation.clock(), executor, options, controlled);
    control->start([this](const Status& outcome) { settled = outcome; });
  }

  void run(Duration time) {
    const TimePoint end = simulation.clock().now() + time;
    executor->post_at(end, [] {});  // time passes where nothing else happens
    simulation.run_until([] { return false; }, end);
  }
  [[nodiscard]] ControlWire::Number last() const { return wire.dialled.rbegin()->first; }
  [[nodiscard]] const std::vector<v1::NodeEvent>& said() const { return wire.dialled.at(last()).said; }
  [[nodiscard]] std::size_t count(v1::NodeEvent::EventCase what) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(said(), [&](const v1::NodeEvent& one) { return one.event_case() == what; }));
  }
  void hear(const v1::ControllerEvent& event) { wire.events_.heard(last(), event); }
  // Of a controller that says no version unless there is one.
  void welcome(std::uint32_t version = 0) {
    v1::ControllerEvent event;
    event.mutable_welcome()->set_lease_nanoseconds(10'000'000'000);
    event.mutable_welcome()->set_protocol_version(version);
    hear(event);
  }
  void activate(std::uint32_t epoch) {
    v1::ControllerEvent event;
    event.mutable_activate()->set_epoch(epoch);
    hear(event);
  }
  void lose(const Status& why = unavailable("reset")) { wire.events_.ended(last(), why); }
  void answer(const Result<v1::RegisterGroupResponse>& response) {
    REQUIRE(wire.registrations.size() == 1);
    const auto answered = wire.registrations.begin()->second;
    wire.registrations.clear();
    answered(response);
  }
  // Results come in the order of the calls' ends.
  void ask(Duration timeout) {
    const GroupSpec group{"g", "alice", {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 1'000}}};
    control->register_group(
        group, simulation.clock().now(), timeout,
        [this](Result<GroupRegistration> result) { registered.push_back(std::move(result)); });
  }
  [[nodiscard]] std::string failure() const {
    REQUIRE_FALSE(registered.empty());
    return registered.back().status().to_string();
  }

  Simulation simulation{1};
  std::shared_ptr<Executor> executor = simulation.make_executor("a");
  Wire wire;
  ControlledNode controlled;
  std::optional<Status> settled;
  std::vector<Result<GroupRegistration>> registered;
  std::unique_ptr<NodeControl> control;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("node control: a node says hello, beats, and comes back where its line breaks") {
  Node node;
  REQUIRE(node.said().size() == 1);
  CHECK(node.said()[0].hello().node() == "a");
  CHECK_FALSE(node.settled);
  node.welcome();
  CHECK((node.settled && node.settled->is_ok()));
  node.run(3500ms);
  CHECK(node.count(v1::NodeEvent::kHeartbeat) == 4);
  node.lose();
  CHECK(node.wire.dialled.size() == 1);
  node.run(ControllerClient::kMinReconnectWait);
  CHECK(node.wire.dialled.size() == 2);
  CHECK_FALSE(node.control->is_welcome());
  // One that says nothing is left after a while.
  node.run(6s);
  CHECK(node.wire.dialled.at(2).is_closed);
  CHECK(node.wire.dialled.size() == 3);
}

TEST_CASE("node control: who is refused at first does not come again") {
  Node node;
  node.lose(already_exists("there is one"));
  REQUIRE(node.settled);
  CHECK(has(node.settled->to_string(), "controller at c:1: there is one"));
  node.run(10s);
  CHECK(node.wire.dialled.size() == 1);
}

TEST_CASE("node control: members that register the same ask once, and each has its own time") {
  Node node;
  node.welcome();
  node.ask(1s);
  node.ask(5s);
  CHECK(node.wire.registrations.size() == 1);
  node.run(2s);
  REQUIRE(node.registered.size() == 1);
  CHECK(has(node.failure(), "was not planned and installed within 1 s"));
  node.answer(response_of(7, 4));
  node.run(1s);
  CHECK(node.registered.size() == 1);  // its plan is not active here
  node.activate(4);
  REQUIRE(node.registered.size() == 2);
  CHECK(node.registered[1]->number == 7);
  // Whoever comes later over the same line is told what is known.
  node.ask(1s);
  CHECK(node.registered.size() == 3);
  CHECK(node.wire.registrations.empty());
}

TEST_CASE("node control: a registration goes on where the controller is lost before its plan is active") {
  Node node;
  node.welcome();
  node.ask(20s);
  node.answer(response_of(7, 4));
  node.lose();
  node.run(1s);
  node.welcome();
  node.activate(4);
  node.run(kRetryPause);
  CHECK(node.registered.empty());
  node.answer(response_of(8, 4));
  REQUIRE(node.registered.size() == 1);
  CHECK(node.registered[0]->number == 8);
}

TEST_CASE("node control: what was heard last is why a registration is late") {
  Node node;
  node.welcome();
  node.ask(1s);
  node.answer(aborted("the name is free again when these have: b"));
  node.run(500ms);  // asked again, and no answer
  CHECK(node.wire.registrations.size() == 1);
  node.run(600ms);
  CHECK(
      has(node.failure(), "DEADLINE_EXCEEDED: controller at c:1: the name is free again when these have: b"));
  CHECK(node.wire.registrations.empty());
  node.ask(5s);
  node.lose(unavailable("recvmsg: reset"));
  node.run(6s);
  CHECK(has(node.failure(), "UNAVAILABLE: group \"g\": no controller answers at c:1"));
  node.ask(100s);
  node.run(kLongestAbsence + 1s);
  CHECK(node.registered.size() == 3);
  CHECK(has(node.failure(), "no controller answers"));
  // Also where it has not heard of a group's end.
  node.control->close_group("g", 7);
  node.ask(100s);
  node.run(kLongestAbsence + 1s);
  CHECK(node.registered.size() == 4);
  CHECK(has(node.failure(), "UNAVAILABLE: group \"g\": no controller answers"));
}

TEST_CASE("node control: heartbeats wait where the controller reads nothing") {
  Node node;
  node.welcome();
  node.wire.unsent = kMostWaiting;
  node.run(10s);
  CHECK(node.count(v1::NodeEvent::kHeartbeat) == 1);
  node.wire.unsent = 0;
  node.run(1s);
  CHECK(node.count(v1::NodeEvent::kHeartbeat) == 2);
}

TEST_CASE(
    "node control: a closed group is said again until the controller has heard, and only then another") {
  Node node;
  node.welcome();
  node.control->close_group("g", 7);
  CHECK(node.count(v1::NodeEvent::kClosed) == 1);
  node.lose();
  node.run(1s);
  node.welcome();
  CHECK(node.count(v1::NodeEvent::kClosed) == 1);
  node.ask(1s);
  CHECK(node.wire.registrations.empty());
  node.run(2s);
  CHECK(has(node.failure(), "has not heard in time that group \"g\" was closed"));
  node.ask(1s);
  v1::ControllerEvent heard;
  heard.mutable_closed()->set_group("g");
  heard.mutable_closed()->set_number(7);
  node.hear(heard);
  CHECK(node.wire.registrations.size() == 1);
}

TEST_CASE("node control: who regroups is asked for again, and the controller has the shorter time") {
  Node node;
  node.welcome();
  std::optional<Result<GroupSpec>> regrouped;
  RegroupRequest request;
  request.group = "g";
  node.control->regroup(request, node.simulation.clock().now(), 10s,
                        [&](Result<GroupSpec> result) { regrouped = std::move(result); });
  REQUIRE(node.wire.regroupings.size() == 1);
  CHECK(node.wire.regroupings.begin()->second.first.timeout_nanoseconds() == 9'500'000'000);
  node.lose();
  CHECK(node.wire.regroupings.empty());
  node.run(1s);
  node.welcome();
  REQUIRE(node.wire.regroupings.size() == 1);
  v1::RegroupResponse response;
  response.mutable_group()->set_name("g+1");
  const auto answered = node.wire.regroupings.begin()->second.second;
  answered(response);
  REQUIRE(regrouped);
  CHECK(regrouped->is_ok());
}

TEST_CASE("node control: who leaves says goodbye, and nothing of it waits any more") {
  Node node;
  node.welcome();
  node.ask(10s);
  bool has_left = false;
  node.control->leave({}, [&] { has_left = true; });
  CHECK(has(node.failure(), "CANCELLED: the node leaves the overlay"));
  CHECK(node.count(v1::NodeEvent::kGoodbye) == 1);
  CHECK_FALSE(has_left);
  node.run(kGoodbyeWait);
  CHECK(has_left);
  node.ask(10s);
  CHECK(node.registered.size() == 2);
  node.run(10s);
  CHECK(node.wire.dialled.size() == 1);
}

TEST_CASE(
    "node control: an older controller is not told that a plan has come, which it would take for installed") {
  const auto reports = [](std::uint32_t version) {
    Node node;
    node.welcome(version);
    v1::ControllerEvent event;
    event.mutable_plan()->set_epoch(1);
    event.mutable_plan()->set_policy("square");
    node.hear(event);
    node.run(10ms);
    std::vector<bool> moving;
    for (const v1::NodeEvent& one : node.said()) {
      if (one.has_installed()) moving.push_back(one.installed().moving());
    }
    return moving;
  };
  CHECK(reports(0) == std::vector<bool>{false});
  CHECK(reports(kMovingSince - 1) == std::vector<bool>{false});
  CHECK(reports(kMovingSince) == std::vector<bool>{true, false});
}

TEST_CASE("node control: both versions are in the hello, and a welcome in another one ends the line") {
  Node node;
  const v1::Hello& hello = node.said().front().hello();
  CHECK(hello.protocol_version() == kOldestControlProtocol);
  CHECK(hello.newest_version() == kControlProtocolVersion);
  node.welcome(kControlProtocolVersion + 1);
  CHECK(node.wire.dialled.begin()->second.is_closed);
  REQUIRE(node.settled);
  CHECK(node.settled->message().find("which node \"a\" did not offer: 11 to 12") != std::string::npos);
}

TEST_CASE("node control: events of a later release are ignored, and named in the log once a second") {
  Node node;
  node.welcome();
  v1::ControllerEvent unknown;
  REQUIRE(unknown.ParseFromString(std::string("\xaa\x06\x00", 3)));  // field 101, an empty message
  std::atomic<int> said = 0;
  set_log_sink([&](LogLevel, const LogFields&, std::string_view line) {
    if (line.find("does not know") != std::string_view::npos) ++said;
  });
  for (int i = 0; i < 5; ++i) node.hear(unknown);
  set_log_sink({});
  CHECK(said == 1);
  CHECK_FALSE(node.wire.dialled.begin()->second.is_closed);
}
