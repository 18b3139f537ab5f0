// Connections that say nothing.
#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>

#include "base/net/socket.h"
#include "controller/grpc/doorkeeper.h"
#include "controller_grpc/fixture.h"
#include "square/v1/controller.grpc.pb.h"

using namespace square;
using namespace square::test;

TEST_CASE("connections that say nothing keep nobody out, and the oldest of many go") {
  const auto controller = start(mesh({"a", "b"}));
  const auto early = FakeNode::join(*controller, "a");
  const net::HostPort address = net::parse_host_port(controller->address()).value();
  std::vector<net::FileDescriptor> silent;
  constexpr std::size_t kSilent = controller::Doorkeeper::kMaxStrangers + 100;
  for (std::size_t i = 0; i < kSilent; ++i) {
    auto socket = net::connect_to(address, kPatience);
    REQUIRE_MESSAGE(socket.is_ok(), socket.status().to_string());
    silent.push_back(*std::move(socket));
  }
  const auto late = FakeNode::join(*controller, "b");
  CHECK(late->client().register_group(broadcast_group("g", {"a", "b"}), kPatience).is_ok());
  CHECK(early->client().register_group(broadcast_group("g", {"a", "b"}), kPatience).is_ok());
  // The first of them hears that it is over; the last may go on.
  CHECK(eventually([&] {
    pollfd first{silent.front().get(), POLLRDHUP, 0};
    return poll(&first, 1, 0) == 1 && (first.revents & POLLRDHUP) != 0;
  }));
  pollfd last{silent.back().get(), POLLRDHUP, 0};
  CHECK(poll(&last, 1, 0) == 0);
}

// It takes as long as strangers are given, 10 s.
TEST_CASE("a line that never says hello is a stranger's, and ends") {
  const auto controller = start(mesh({"a", "b"}));
  const auto stub =
      v1::Controller::NewStub(grpc::CreateChannel(controller->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto line = stub->Attach(&context);
  const auto begin = std::chrono::steady_clock::now();
  v1::ControllerEvent event;
  CHECK_FALSE(line->Read(&event));
  CHECK(std::chrono::steady_clock::now() - begin < controller::Doorkeeper::kStrangerTime + kPatience);
}
