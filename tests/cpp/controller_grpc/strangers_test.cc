// Connections that say nothing.
#include <doctest/doctest.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/socket.h>

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
  constexpr std::size_t kSilent = controller::Visitors::kMaxSilent + 100;
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

TEST_CASE("a stranger that sends much, and no message, is sent away") {
  const auto controller = start(mesh({"a", "b"}));
  auto socket = net::connect_to(net::parse_host_port(controller->address()).value(), kPatience);
  REQUIRE_MESSAGE(socket.is_ok(), socket.status().to_string());
  // The preface of HTTP/2, settings, and headers that have no end.
  std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  sent += std::string("\0\0\0\4\0\0\0\0\0", 9) + std::string("\0\0\1\1\0\0\0\0\1\0", 10);
  const std::string more = std::string("\0\x40\0\x9\0\0\0\0\1", 9) + std::string(16'384, 'a');
  std::size_t total = 0;
  CHECK(eventually([&] {
    if (sent.empty()) sent = more;
    const ssize_t written = send(socket->get(), sent.data(), sent.size(), MSG_NOSIGNAL);
    if (written > 0) sent.erase(0, static_cast<std::size_t>(written));
    if (written > 0) total += static_cast<std::size_t>(written);
    pollfd end{socket->get(), POLLRDHUP, 0};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }));
  CHECK(total < 4 << 20);
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
  CHECK(std::chrono::steady_clock::now() - begin < controller::Visitors::kStrangerTime + kPatience);
}
