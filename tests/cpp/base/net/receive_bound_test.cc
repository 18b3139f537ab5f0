#include "base/net/receive_bound.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "base/net/socket.h"

using namespace square;
using namespace square::net;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kMuch = 4 << 20;
constexpr std::uint32_t kAhead = 32 << 10;
constexpr std::size_t kSegment = 64 << 10;  // of loopback, the largest

// Two ends of a connection over which much is sent.
struct Flood {
  explicit Flood(const std::string& host) {
    auto listening = listen_on({host, 0}, 1);
    REQUIRE_MESSAGE(listening.is_ok(), listening.status().to_string());
    listener = *std::move(listening);
    ReceiveBound::keep_first_segments(listener.sockets[0].get());
    auto connected = connect_to(listener.address, 5s);
    REQUIRE_MESSAGE(connected.is_ok(), connected.status().to_string());
    client = *std::move(connected);
    for (int tries = 0; !server && tries < 500; ++tries) {
      server = accept_from(listener.sockets[0]);
      std::this_thread::sleep_for(10ms);
    }
    REQUIRE(server);
  }

  void send_some() {
    const std::vector<char> piece(64 << 10, 'x');
    while (sent < kMuch) {
      const auto more = send(client.get(), piece.data(), std::min(piece.size(), kMuch - sent), MSG_NOSIGNAL);
      if (more <= 0) return;
      sent += static_cast<std::size_t>(more);
    }
  }
  void read_all() {
    std::vector<char> piece(64 << 10);
    for (;;) {
      const auto some = recv(server.get(), piece.data(), piece.size(), 0);
      if (some <= 0) return;
      got += static_cast<std::size_t>(some);
    }
  }
  // Sends and reads until `enough` has come, or for that time.
  void run(std::size_t enough, std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (got < enough && std::chrono::steady_clock::now() < end) {
      send_some();
      read_all();
      std::this_thread::sleep_for(1ms);
    }
  }

  Listener listener;
  FileDescriptor client, server;
  std::size_t sent = 0, got = 0;
};

}  // namespace

TEST_CASE("what comes beyond a bound waits in the sender, and comes when it may") {
  for (const char* const host : {"127.0.0.1", "::1"}) {
    CAPTURE(std::string(host));
    if (!listen_on({host, 0}, 1).is_ok()) {
      MESSAGE("this machine has no " << std::string(host));
      continue;
    }
    Flood flood(host);
    ReceiveBound bound(flood.server.get());
    bound.let_come(flood.server.get(), 0, kAhead);
    flood.run(kMuch, 300ms);
    CHECK(flood.got >= kAhead);
    CHECK(flood.got <= kAhead + kSegment);
    const std::size_t first = flood.got;
    bound.let_come(flood.server.get(), first, kAhead);
    flood.run(first + kAhead, 10s);
    CHECK(flood.got >= first + kAhead);
    CHECK(flood.got <= first + kAhead + kSegment);
    bound.lift(flood.server.get());
    flood.run(kMuch, 20s);
    CHECK(flood.got == kMuch);
  }
}

TEST_CASE("a reset is heard although it comes behind bytes that were dropped") {
  Flood flood("127.0.0.1");
  ReceiveBound bound(flood.server.get());
  bound.let_come(flood.server.get(), 0, kAhead);
  flood.run(kMuch, 200ms);
  CHECK(flood.sent > flood.got);
  const linger at_once{1, 0};
  REQUIRE(setsockopt(flood.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  flood.client = {};
  std::vector<char> piece(kSegment);
  ssize_t some = 0;
  for (int tries = 0; tries < 500; ++tries) {
    some = recv(flood.server.get(), piece.data(), piece.size(), 0);
    if (some < 0 && errno != EAGAIN) break;
    std::this_thread::sleep_for(10ms);
  }
  CHECK(some < 0);
  CHECK(errno == ECONNRESET);
}

TEST_CASE("without its first segment a connection has no bound") {
  Flood flood("127.0.0.1");
  ReceiveBound first(flood.server.get());
  ReceiveBound second(flood.server.get());  // the kernel gives the segment once
  second.let_come(flood.server.get(), 0, kAhead);
  flood.run(kMuch, 20s);
  CHECK(flood.got == kMuch);
}
