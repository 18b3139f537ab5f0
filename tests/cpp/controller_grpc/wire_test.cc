// The protocol itself, spoken by hand: other versions, silent nodes, processes that come back.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <optional>

#include "../trust/issued.h"
#include "controller/grpc/status.h"
#include "controller/protocol.h"
#include "controller_grpc/fixture.h"
#include "square/log.h"
#include "square/v1/controller.grpc.pb.h"
#include "trust/grpc/credentials.h"

using namespace square;
using namespace square::test;
using square::testing::Issuer;

namespace {

class RawLine {
 public:
  explicit RawLine(const Controller& controller)
      : stub_(v1::Controller::NewStub(
            grpc::CreateChannel(controller.address(), grpc::InsecureChannelCredentials()))),
        stream_(stub_->Attach(&context_)) {}
  ~RawLine() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  void hello(const std::string& node, std::uint64_t incarnation,
             std::uint32_t version = controller::kControlProtocolVersion) {
    v1::NodeEvent event;
    event.mutable_hello()->set_protocol_version(version);
    event.mutable_hello()->set_node(node);
    event.mutable_hello()->set_address(node + ".example:1");
    event.mutable_hello()->set_incarnation(incarnation);
    stream_->Write(event);
  }
  void installed(std::uint32_t epoch) {
    v1::NodeEvent event;
    event.mutable_installed()->set_epoch(epoch);
    stream_->Write(event);
  }
  void unknown() {
    v1::NodeEvent event;
    REQUIRE(event.ParseFromString(std::string("\xaa\x06\x00", 3)));  // field 101, an empty message
    stream_->Write(event);
  }
  void closed(const std::string& group) {
    v1::NodeEvent event;
    event.mutable_closed()->set_group(group);
    stream_->Write(event);
  }
  void lacking(std::uint32_t epoch) {
    v1::NodeEvent event;
    event.mutable_lacking()->set_epoch(epoch);
    stream_->Write(event);
  }
  // What was given may be told at any time.
  std::optional<v1::ControllerEvent> read() {
    v1::ControllerEvent event;
    while (stream_->Read(&event)) {
      if (!event.has_given()) return event;
    }
    return std::nullopt;
  }
  bool is_welcome() {
    const auto event = read();
    return event && event->has_welcome();
  }
  // Reads to the end and says why it ended.
  Status end() {
    while (read()) {
    }
    finished_ = true;
    return controller::from_grpc(stream_->Finish());
  }
  v1::Controller::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<v1::Controller::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::NodeEvent, v1::ControllerEvent>> stream_;
  bool finished_ = false;
};

bool is_connected(const Controller& controller, const std::string& name) {
  for (const NodeInformation& node : controller.nodes()) {
    if (node.name == name) return node.connected;
  }
  return false;
}

}  // namespace

TEST_CASE("calls that are no UTF-8 are refused, and fill no log") {
  const auto controller = start(mesh({"a"}));
  RawLine line(*controller);
  std::atomic<int> said = 0;
  set_log_sink([&](LogLevel, const LogFields& fields, std::string_view) {
    if (fields.component == "protobuf") ++said;
  });
  for (int i = 0; i < 50; ++i) {
    v1::RegisterGroupRequest request;
    request.set_name("\xff");
    v1::RegisterGroupResponse response;
    grpc::ClientContext context;
    CHECK_FALSE(line.stub().RegisterGroup(&context, request, &response).ok());
  }
  set_log_sink({});
  CHECK(said >= 1);
  CHECK(said <= 3);  // one a second
}

TEST_CASE("another protocol version is refused by name") {
  const auto controller = start(mesh({"a"}));
  RawLine line(*controller);
  line.hello("a", 1, 99);
  const Status status = line.end();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  const std::string both =
      "speaks control protocol 99, the controller " + to_string(controller::control_versions());
  CHECK(status.message().find(both + "; upgrade the controller") != std::string::npos);
}

TEST_CASE("events of a later release are ignored") {
  const auto controller = start(mesh({"a"}));
  RawLine line(*controller);
  line.hello("a", 1);
  CHECK(line.is_welcome());
  std::atomic<int> said = 0;
  set_log_sink([&](LogLevel, const LogFields&, std::string_view text) {
    if (text.find("node a says what this release does not know") != std::string_view::npos) ++said;
  });
  line.unknown();
  line.unknown();
  line.closed("g");
  for (auto event = line.read(); event && !event->has_closed();) event = line.read();
  set_log_sink({});
  CHECK(said == 1);
  CHECK(is_connected(*controller, "a"));
}

TEST_CASE("a line begins with one hello") {
  const auto controller = start(mesh({"a"}));
  RawLine silent(*controller);
  silent.installed(1);
  CHECK(silent.end().code() == StatusCode::kInvalidArgument);
  RawLine twice(*controller);
  twice.hello("a", 1);
  CHECK(twice.is_welcome());
  twice.hello("a", 1);
  CHECK(twice.end().code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(is_connected(*controller, "a"));
}

TEST_CASE("a node that is silent for a lease has left") {
  ControllerOptions options;
  options.lease = 300ms;
  const auto controller = start(mesh({"a", "b"}), options);
  const auto alive = FakeNode::join(*controller, "b");
  RawLine silent(*controller);
  silent.hello("a", 1);
  REQUIRE(silent.is_welcome());
  CHECK(is_connected(*controller, "a"));
  const auto begin = std::chrono::steady_clock::now();
  const Status status = silent.end();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK(std::chrono::steady_clock::now() - begin >= 150ms);
  CHECK_FALSE(is_connected(*controller, "a"));
  // The client's heartbeats keep the other one.
  CHECK(is_connected(*controller, "b"));
  for (const auto& event : alive->events()) CHECK(event.kind != FakeNode::Event::Kind::kLost);
}

TEST_CASE("the same process may come back, another only when the line broke") {
  const auto controller = start(mesh({"a"}));
  auto first = std::make_unique<RawLine>(*controller);
  first->hello("a", 1);
  REQUIRE(first->is_welcome());
  RawLine other(*controller);
  other.hello("a", 2);
  CHECK(other.end().code() == StatusCode::kAlreadyExists);
  // The controller may not have seen yet that the old line is gone.
  RawLine back(*controller);
  back.hello("a", 1);
  REQUIRE(back.is_welcome());
  CHECK(first->end().code() == StatusCode::kAborted);
  first.reset();
  CHECK(is_connected(*controller, "a"));
  {
    RawLine again(*controller);
    again.hello("a", 1);
    REQUIRE(again.is_welcome());
  }
  // Broken, not said goodbye: the name is free at once, long before the lease ends.
  REQUIRE(eventually([&] { return !is_connected(*controller, "a"); }));
  RawLine restarted(*controller);
  restarted.hello("a", 3);
  CHECK(restarted.is_welcome());
}

TEST_CASE("an installation that was not asked for counts for nothing") {
  const auto controller = start(mesh({"a", "b"}));
  RawLine line(*controller);
  line.hello("a", 1);
  REQUIRE(line.is_welcome());
  const auto plan = line.read();
  REQUIRE((plan && plan->has_plan()));
  line.installed(1000);
  CHECK(controller->wait_for_nodes({"a"}, 100ms).code() == StatusCode::kDeadlineExceeded);
  line.installed(1);
  const auto activate = line.read();
  REQUIRE((activate && activate->has_activate()));
  CHECK(activate->activate().epoch() == 1);
  CHECK(controller->wait_for_nodes({"a"}, kPatience).is_ok());
}

TEST_CASE("a group leaves when a new process takes its last member's name") {
  const auto controller = start(mesh({"a", "b"}));
  auto line = std::make_unique<RawLine>(*controller);
  line->hello("a", 1);
  REQUIRE(line->is_welcome());
  line->installed(1);
  REQUIRE(controller->wait_for_nodes({"a"}, kPatience).is_ok());
  line.reset();
  REQUIRE(eventually([&] { return !is_connected(*controller, "a"); }));
  const auto registered = controller->register_group(broadcast_group("g", {"a", "b"}));
  REQUIRE(registered.is_ok());
  const auto restarted = FakeNode::join(*controller, "a");
  CHECK(
      eventually([&] { return controller->plan()->find_collective(registered->collectives[0]) == nullptr; }));
}

TEST_CASE("a node that has lost what its plan was told against is sent all of it") {
  const auto controller = start(mesh({"a", "b"}));
  RawLine line(*controller);
  line.hello("a", 1);
  REQUIRE(line.is_welcome());
  const auto plan = line.read();
  REQUIRE((plan && plan->has_plan()));
  line.lacking(1000);  // of which it cannot know
  line.lacking(plan->plan().epoch());
  const auto again = line.read();
  REQUIRE((again && again->has_plan()));
  CHECK(again->plan().SerializeAsString() == plan->plan().SerializeAsString());
}

TEST_CASE("plans and nodes can be asked for, by who is believed; what a node may do, by that node") {
  ControllerOptions options;
  const Issuer issuer;
  options.identity = issuer.identity(Role::kController, "c");
  const auto controller = start(mesh({"a", "b"}), options);
  FakeNode::Options of_a;
  of_a.identity = issuer.node("a");
  const auto a = FakeNode::join(*controller, "a", of_a);  // who registers has a line
  for (const bool is_tenant : {true, false}) {
    CAPTURE(is_tenant);
    const auto caller = is_tenant ? issuer.identity(Role::kTenant, "alice") : issuer.node("a");
    const auto stub = v1::Controller::NewStub(grpc::CreateChannel(
        controller->address(), trust::channel_credentials(caller, {{Role::kController}, "c"})));
    grpc::ClientContext plan_context;
    grpc::ClientContext nodes_context;
    grpc::ClientContext group_context;
    v1::GetPlanResponse plan;
    const auto plan_status = stub->GetPlan(&plan_context, {}, &plan);
    v1::ListNodesResponse nodes;
    const auto nodes_status = stub->ListNodes(&nodes_context, {}, &nodes);
    v1::RegisterGroupResponse group;
    GroupSpec wanted = broadcast_group("g", {"a", "b"});
    wanted.registrant = "a";
    Grant grant;
    grant.tenant = kAnyTenant;
    grant.expires = 4'000'000'000;
    wanted.grant = issuer.authority().grant(grant).value();
    const auto group_status = stub->RegisterGroup(&group_context, controller::to_message(wanted), &group);
    REQUIRE(plan_status.ok());
    const auto read = plan_from_json(plan.plan().json());
    REQUIRE(read.is_ok());
    CHECK(read->epoch >= Epoch(1));  // more where nodes are missed meanwhile
    REQUIRE(nodes_status.ok());
    // A tenant sees what is its own, and alice has nothing yet; nodes know one another.
    CHECK(nodes.nodes_size() == (is_tenant ? 0 : 2));
    CHECK(read->collectives.empty());
    CHECK(group_status.error_code() ==
          (is_tenant ? grpc::StatusCode::PERMISSION_DENIED : grpc::StatusCode::OK));
    if (!is_tenant) CHECK(group.epoch() > read->epoch.value());
  }
}

TEST_CASE("messages survive the wire") {
  GroupSpec group = broadcast_group("g", {"a", "b", "a"}, Rank(2));
  group.collectives.push_back({CollectiveOp::kReduceScatter, Rank(0), 0.25, 1ULL << 40U});
  const auto read = controller::from_message(controller::to_message(group));
  REQUIRE(read.is_ok());
  CHECK(read->name == group.name);
  CHECK(read->tenant == group.tenant);
  CHECK(read->nodes == group.nodes);
  REQUIRE(read->collectives.size() == 2);
  CHECK(read->collectives[0].root == Rank(2));
  CHECK(read->collectives[1].op == CollectiveOp::kReduceScatter);
  CHECK(read->collectives[1].weight == 0.25);
  CHECK(read->collectives[1].size_bytes == 1ULL << 40U);
  auto message = controller::to_message(group);
  message.mutable_collectives(0)->set_op("dance");
  CHECK(controller::from_message(message).status().code() == StatusCode::kInvalidArgument);
}
