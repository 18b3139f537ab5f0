// Sockets over loopback.
#include "base/net/socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

using namespace square;
using namespace square::net;

namespace {

constexpr int kWaitMs = 5'000;

bool becomes_readable(const FileDescriptor& socket) {
  pollfd waiting{socket.get(), POLLIN, 0};
  return poll(&waiting, 1, kWaitMs) == 1;
}

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("what listens is reached, in either spelling, and both ends know who they are") {
  for (const char* spelling : {"127.0.0.1:0", "127.1:0", "localhost:0"}) {
    CAPTURE(spelling);
    auto listener = listen_on(parse_host_port(spelling).value(), 8);
    REQUIRE_MESSAGE(listener.is_ok(), listener.status().to_string());
    CHECK(listener->address.port != 0);
    const auto dialled = connect_to(listener->address, std::chrono::seconds(5));
    REQUIRE_MESSAGE(dialled.is_ok(), dialled.status().to_string());
    const std::string far = peer_of(dialled->get());
    CHECK(far.ends_with(":" + std::to_string(listener->address.port)));
    FileDescriptor accepted;
    for (const FileDescriptor& socket : listener->sockets) {
      if (!accepted && (listener->sockets.size() > 1 || becomes_readable(socket)))
        accepted = accept_from(socket);
    }
    REQUIRE(static_cast<bool>(accepted));
    CHECK((fcntl(accepted.get(), F_GETFL) & O_NONBLOCK) != 0);
    CHECK((fcntl(accepted.get(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(is_loopback(peer_of(accepted.get())));
    CHECK_FALSE(static_cast<bool>(accept_from(listener->sockets.front())));
    CHECK(errno == EAGAIN);
  }
}

TEST_CASE("a taken port and a silent one are named") {
  const auto first = listen_on({"127.0.0.1", 0}, 8);
  REQUIRE(first.is_ok());
  const auto second = listen_on(first->address, 8);
  CHECK(second.status().code() == StatusCode::kUnavailable);
  CHECK(second.status().message().find(first->address.to_string()) != std::string::npos);
  CHECK(second.status().message().find("in use") != std::string::npos);
  HostPort gone;
  {
    const auto listener = listen_on({"127.0.0.1", 0}, 8);
    REQUIRE(listener.is_ok());
    gone = listener->address;
  }
  const auto dialled = connect_to(gone, std::chrono::seconds(5));
  CHECK(dialled.status().code() == StatusCode::kUnavailable);
  CHECK(dialled.status().message().find(gone.to_string()) != std::string::npos);
  CHECK(listen_on({"no-such-host.invalid", 0}, 8).status().code() == StatusCode::kUnavailable);
}

TEST_CASE("an address is a host and a port, and is written as it is read") {
  for (const char* const text : {"127.0.0.1:80", "[::1]:80", "[fe80::1%1]:80", "localhost:65535", "a.b:0"}) {
    const auto address = parse_host_port(text);
    REQUIRE_MESSAGE(address.is_ok(), text);
    const auto again = parse_host_port(address->to_string());
    REQUIRE_MESSAGE(again.is_ok(), address->to_string());
    CHECK(again->host == address->host);
  }
  for (const char* const text :
       {"", ":1", "a", "a:", "a:65536", "a:-1", "::1:80", "[]:1", "[[a]]:1", "a]:1", "[a:1"})
    CHECK_MESSAGE(parse_host_port(text).status().code() == StatusCode::kInvalidArgument, text);
}

TEST_CASE("a socket connects by itself to a numeric address, and names are left to who can wait") {
  const auto listener = listen_on({"127.0.0.1", 0}, 8);
  REQUIRE(listener.is_ok());
  const auto begun = begin_connect(listener->address);
  REQUIRE(begun.is_ok());
  pollfd ready{begun->get(), POLLOUT, 0};
  REQUIRE(poll(&ready, 1, 5'000) == 1);
  CHECK(peer_of(begun->get()) == listener->address.to_string());
  CHECK(begin_connect({"localhost", listener->address.port}).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a descriptor is closed with its owner, once, and errno stays") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  FileDescriptor writer(ends[1]);
  {
    FileDescriptor reader(ends[0]);
    FileDescriptor owner = std::move(reader);
    CHECK_FALSE(static_cast<bool>(reader));
    CHECK(owner.get() == ends[0]);
    errno = EDOM;
  }
  CHECK(errno == EDOM);
  CHECK_FALSE(is_open(ends[0]));
  const int kept = writer.release();
  CHECK_FALSE(static_cast<bool>(writer));
  CHECK(is_open(kept));
  close(kept);
}

TEST_CASE("a name refuses only if all of its addresses do that there is a way to") {
  CHECK(told_together(0, ECONNREFUSED) == ECONNREFUSED);
  CHECK(told_together(ECONNREFUSED, ECONNREFUSED) == ECONNREFUSED);
  for (const int other : {ETIMEDOUT, EHOSTUNREACH}) {
    CHECK(told_together(other, ECONNREFUSED) == other);
    CHECK(told_together(ECONNREFUSED, other) == other);
  }
  for (const int nothing : {EAFNOSUPPORT, EADDRNOTAVAIL, ENETUNREACH}) {
    CHECK(told_together(nothing, ECONNREFUSED) == ECONNREFUSED);
    CHECK(told_together(ECONNREFUSED, nothing) == ECONNREFUSED);
    CHECK(told_together(0, nothing) == nothing);
    CHECK(told_together(nothing, ENETUNREACH) == nothing);
  }
}
