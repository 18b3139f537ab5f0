// A process that speaks a gateway's protocol by hand.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "controller/protocol.h"
#include "gateway/local_socket.h"
#include "gateway/message_socket.h"
#include "gateway/messages.h"
#include "gateway/segment.h"
#include "gateway/site.h"

namespace square::testing {

using namespace square::gateway;

// Sends `bytes` and `descriptors` over a Unix socket.
inline ssize_t send_with(const FileDescriptor& socket, std::span<const std::byte> bytes,
                         const std::vector<int>& descriptors, int flags = 0) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const std::size_t size = descriptors.size() * sizeof(int);
  std::vector<std::max_align_t> control(CMSG_SPACE(size) / sizeof(std::max_align_t) + 1);
  if (size > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(part), descriptors.data(), size);
  }
  return sendmsg(socket.get(), &message, MSG_NOSIGNAL | flags);
}

// An attachment that says whatever the test wants.
class Liar {
 public:
  explicit Liar(const std::string& address, ProtocolVersions spoken = gateway_versions())
      : socket_(connect_local(address, kLimit).value()) {
    const timeval limit{20, 0};
    REQUIRE(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    const int flags = fcntl(socket_.get(), F_GETFL);
    REQUIRE(fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK) == 0);
    const Segment probe = make_sealed_segment({}).value();
    v1::GatewayHello hello;
    hello.set_protocol_version(spoken.oldest);
    hello.set_newest_version(spoken.newest);
    hello.mutable_probe()->set_nonce(probe.nonce);
    say(MessageType::kHello, 0, hello, {probe.descriptor.get()});
    v1::GatewayWelcome welcome;
    REQUIRE(hear(welcome) == MessageType::kWelcome);
    REQUIRE(welcome.shared_memory());
    version = welcome.protocol_version();
  }

  void say(MessageType type, std::uint64_t number, const google::protobuf::MessageLite& message,
           const std::vector<int>& descriptors = {}) {
    const std::string body = body_of(message);
    const auto bytes = std::as_bytes(std::span(body));
    const HeaderBytes header =
        encode_header({type, number, 0, static_cast<std::uint32_t>(body.size())}, bytes);
    // At once: a process that is sent away for its descriptors could not send the rest.
    std::vector<std::byte> all(header.begin(), header.end());
    all.insert(all.end(), bytes.begin(), bytes.end());
    REQUIRE(send_with(socket_, all, descriptors) == static_cast<ssize_t>(all.size()));
  }

  // Whether the other end has closed the connection.
  [[nodiscard]] bool is_sent_away() {
    std::array<char, 4096> bytes{};
    while (true) {
      const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) return got == 0 || errno == ECONNRESET;
    }
  }

  // The type of the next message; heartbeats aside.
  MessageType hear(google::protobuf::MessageLite& message) {
    while (true) {
      HeaderBytes bytes{};
      REQUIRE(recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL) == kHeaderBytes);
      const auto header = decode_header(bytes);
      REQUIRE(header.is_ok());
      std::string body(header->body_bytes, '\0');
      if (!body.empty()) {
        REQUIRE(recv(socket_.get(), body.data(), body.size(), MSG_WAITALL) ==
                static_cast<ssize_t>(body.size()));
      }
      if (header->type == MessageType::kHeartbeat) continue;
      if (header->type != MessageType::kAdmitted) REQUIRE(message.ParseFromString(body));
      return header->type;
    }
  }

  // Registers `group` as nobody, and returns the number of its first collective.
  std::uint32_t add(const GroupSpec& group) {
    v1::GatewayRegister wanted;
    *wanted.mutable_group() = controller::to_message(group);
    wanted.set_timeout_nanoseconds(to_nanoseconds(kLimit));
    say(MessageType::kRegister, 1, wanted);
    v1::GatewayRegistered registered;
    REQUIRE(hear(registered) == MessageType::kRegistered);
    REQUIRE(registered.group().collectives_size() == static_cast<int>(group.collectives.size()));
    return registered.group().collectives(0);
  }

  std::uint32_t version = 0;  // of the welcome

 private:
  FileDescriptor socket_;
};

inline std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

}  // namespace square::testing
