// Who may join, when a name is free again, and what nodes learn of one another.
#include <algorithm>
#include <thread>

#include "../trust/issued.h"
#include "controller_grpc/fixture.h"
#include "square/log.h"

using namespace square;
using namespace square::test;
using square::testing::Issuer;
using Kind = FakeNode::Event::Kind;

namespace {

bool heard(const std::vector<FakeNode::Event>& events, Kind kind, const std::string& text) {
  return std::any_of(events.begin(), events.end(),
                     [&](const FakeNode::Event& event) { return event.kind == kind && event.text == text; });
}

Status join_status(const Controller& controller, const std::string& name,
                   std::shared_ptr<Identity> identity = nullptr) {
  FakeNode::Options options;
  options.identity = std::move(identity);
  options.connect_timeout = 1s;
  return FakeNode::join(controller.address(), name, options).status();
}

bool is_listed(const Controller& controller, const std::string& name, bool connected) {
  for (const NodeInformation& node : controller.nodes()) {
    if (node.name == name && node.connected == connected && !node.address.empty()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("nodes learn each other's addresses, whoever came first") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  CHECK(a->wait_for([](const auto& events) { return heard(events, Kind::kAddress, "b@b.example:1"); }));
  CHECK(b->wait_for([](const auto& events) { return heard(events, Kind::kAddress, "a@a.example:1"); }));
  CHECK(is_listed(*controller, "a", true));
  CHECK_FALSE(is_listed(*controller, "c", true));
  CHECK(controller->nodes().size() == 3);
  CHECK(controller->wait_for_nodes({"a", "b"}, kPatience).is_ok());
  const Status missing = controller->wait_for_nodes({"a", "c"}, 50ms);
  CHECK(missing.code() == StatusCode::kDeadlineExceeded);
  CHECK(missing.message().find(": c") != std::string::npos);

  // The same node elsewhere: the others are told.
  b->leave();
  FakeNode::Options moved;
  moved.address = "elsewhere.example:2";
  const auto again = FakeNode::join(*controller, "b", moved);
  CHECK(
      a->wait_for([](const auto& events) { return heard(events, Kind::kAddress, "b@elsewhere.example:2"); }));
}

TEST_CASE("a node that may not join is told why") {
  ControllerOptions options;
  const Issuer issuer;
  const Issuer stranger;
  options.identity = issuer.identity(Role::kController, "c");
  const auto controller = start(mesh({"a", "b"}), options);
  FakeNode::Options own;
  own.identity = issuer.node("a");
  const auto a = FakeNode::join(*controller, "a", own);
  CHECK_FALSE(join_status(*controller, "b").is_ok());
  CHECK_FALSE(join_status(*controller, "b", stranger.node("b")).is_ok());
  CHECK_FALSE(join_status(*controller, "b", Identity::make_own().value()).is_ok());
  const Status forged = join_status(*controller, "b", own.identity);
  CHECK(forged.code() == StatusCode::kPermissionDenied);
  CHECK(forged.message().find("spiffe://square.test/node/a") != std::string::npos);
  CHECK(join_status(*controller, "b", issuer.identity(Role::kTenant, "b")).code() ==
        StatusCode::kPermissionDenied);
  const Status unknown = join_status(*controller, "z", issuer.node("z"));
  CHECK(unknown.code() == StatusCode::kNotFound);
  CHECK(unknown.message().find("\"z\"") != std::string::npos);
  const Status twice = join_status(*controller, "a", own.identity);
  CHECK(twice.code() == StatusCode::kAlreadyExists);
  CHECK(twice.message().find("a.example:1") != std::string::npos);
  // Calls other than Attach are made as the node of the certificate, too.
  GroupSpec group = broadcast_group("g", {"a", "b"});
  Grant grant;
  grant.tenant = kAnyTenant;
  grant.expires = 4'000'000'000;
  REQUIRE(issuer.authority().write_grant(grant, issuer.folder("a")).is_ok());
  CHECK(a->client().register_group(group, kPatience).is_ok());
}

TEST_CASE("a name is free again after a goodbye") {
  const auto controller = start(mesh({"a", "b"}));
  for (int i = 0; i < 5; ++i) {
    const auto node = FakeNode::join(*controller, "a");
    CHECK(is_listed(*controller, "a", true));
  }
  CHECK(eventually([&] { return !is_listed(*controller, "a", true); }));
}

TEST_CASE("where no controller is, connect says so in time") {
  std::string address;
  {
    const auto controller = start(mesh({"a"}));
    address = controller->address();
  }
  FakeNode::Options options;
  options.connect_timeout = 300ms;
  const auto begin = std::chrono::steady_clock::now();
  const Status status = FakeNode::join(address, "a", options).status();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(status.message().find("no controller answers at " + address) == 0);
  CHECK(status.message().find("start one with `square controller`") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - begin < 1500ms);
  CHECK(FakeNode::join("nonsense", "a", options).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a client that is early waits for its controller") {
  ControllerOptions options;
  {
    const auto controller = start(mesh({"a"}));
    options.bind_address = controller->address();
  }
  std::unique_ptr<Controller> late;
  std::thread starter([&] {
    std::this_thread::sleep_for(300ms);
    late = start(mesh({"a"}), options);
  });
  const auto node = FakeNode::join(options.bind_address, "a", {});
  starter.join();
  CHECK_MESSAGE(node.is_ok(), node.status().to_string());
}

TEST_CASE("a client comes back to its controller and gets the plan again") {
  ControllerOptions options;
  auto controller = start(mesh({"a", "b"}));
  options.bind_address = controller->address();
  const auto a = FakeNode::join(*controller, "a");
  REQUIRE(a->wait_for_active(Epoch(1)));
  controller->stop();
  CHECK(a->wait_for([](const auto& events) { return events.back().kind == Kind::kLost; }));
  controller.reset();
  controller = start(mesh({"a", "b"}), options);
  CHECK(controller->wait_for_nodes({"a"}, kPatience).is_ok());
  CHECK(a->wait_for([](const auto& events) {
    return std::count_if(events.begin(), events.end(),
                         [](const auto& event) { return event.kind == Kind::kActivate; }) >= 2;
  }));
}

TEST_CASE("where a controller may listen") {
  ControllerOptions options;
  options.bind_address = "0.0.0.0:0";
  CHECK(Controller::start(options, mesh({"a"})).status().code() == StatusCode::kInvalidArgument);
  options.insecure = true;
  CHECK(Controller::start(options, mesh({"a"})).is_ok());
  const Issuer issuer;
  options.identity = issuer.identity(Role::kController, "c");
  CHECK(Controller::start(options, mesh({"a"})).status().code() == StatusCode::kInvalidArgument);
  options.insecure = false;
  CHECK(Controller::start(options, mesh({"a"})).is_ok());
  options.identity = issuer.node("a");
  CHECK(Controller::start(options, mesh({"a"})).status().code() == StatusCode::kInvalidArgument);
  options.identity = nullptr;
  options.bind_address = "nonsense";
  CHECK(Controller::start(options, mesh({"a"})).status().code() == StatusCode::kInvalidArgument);
  const auto first = start(mesh({"a"}));
  options.bind_address = first->address();
  const Status taken = Controller::start(options, mesh({"a"})).status();
  CHECK(taken.code() == StatusCode::kUnavailable);
  CHECK(taken.message().find(first->address()) != std::string::npos);
  options = {};
  options.advertised_address = "controller.example:7";
  CHECK(start(mesh({"a"}), options)->address() == "controller.example:7");
}

TEST_CASE("a node that left an overlay without a topology relays nothing, also while a group names it") {
  Scenario open;
  open.policy.name = "exact";
  const auto controller = start(open);
  const auto a = FakeNode::join(*controller, "a");
  const auto b = FakeNode::join(*controller, "b");
  const auto c = FakeNode::join(*controller, "c");
  REQUIRE(a->client().register_group(broadcast_group("with", {"a", "c"}), kPatience).is_ok());
  for (const char* name : {"one", "two", "three"})
    REQUIRE(a->client().register_group(broadcast_group(name, {"a", "b"}), kPatience).is_ok());
  // Whether what members a and b have alone goes over c.
  const auto is_relayed = [&] {
    const auto plan = controller->plan();
    const NodeId relay = *plan->find_node("c");
    return std::ranges::any_of(plan->sessions, [&](const PlanSession& session) {
      return std::ranges::find(session.members, relay) == session.members.end() &&
             std::ranges::any_of(session.streams, [&](const PlanStream& stream) {
               return std::ranges::any_of(stream.links,
                                          [&](const auto& link) { return link.second == relay; });
             });
    });
  };
  CHECK(eventually(is_relayed));
  c->leave();
  CHECK(eventually([&] { return !is_relayed(); }));
  // Nor in later plans.
  REQUIRE(a->client().register_group(broadcast_group("later", {"a", "b"}), kPatience).is_ok());
  CHECK_FALSE(is_relayed());
}
