// A TCP connection to a node that speaks HTTP/2 by hand, as far as it likes.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace square::testing {

class RawConnection {
 public:
  // `address` is 127.0.0.1:port.
  explicit RawConnection(const std::string& address) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    REQUIRE(socket_ >= 0);
    REQUIRE(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  }
  ~RawConnection() {
    if (socket_ >= 0) close(socket_);
  }
  RawConnection(RawConnection&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  RawConnection& operator=(RawConnection&&) = delete;

  void send(std::string_view bytes) const {
    // A peer that closed is no error of the test.
    (void)!::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void greet() const { send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "")); }

  // A call on stream `stream`.
  void call(const std::map<std::string, std::string>& metadata, std::uint32_t stream = 1) const {
    std::string headers;
    add(headers, ":method", "POST");
    add(headers, ":scheme", "http");
    add(headers, ":path", "/square.v1.Link/Carry");
    add(headers, ":authority", "node");
    add(headers, "te", "trailers");
    add(headers, "content-type", "application/grpc");
    for (const auto& [key, value] : metadata) add(headers, key, value);
    send(frame(1, 4, stream, headers));
  }
  // The prefix of a message that claims `claimed_bytes`, and as many bytes of it as `bytes` has.
  void begin_message(std::uint32_t claimed_bytes, std::string_view bytes) const {
    std::string data = std::string(1, '\0') + big_endian(claimed_bytes, 4);
    data.append(bytes);
    for (std::size_t at = 0; at < data.size(); at += 16384) send(frame(0, 0, 1, data.substr(at, 16384)));
  }

  // Reads until the other end has closed; false if it has not after `patience`.
  [[nodiscard]] bool wait_closed(std::chrono::milliseconds patience) const {
    const auto give_up = std::chrono::steady_clock::now() + patience;
    char bytes[4096];
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(give_up - std::chrono::steady_clock::now()).count();
      pollfd wait{socket_, POLLIN, 0};
      if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) return false;
      if (recv(socket_, bytes, sizeof(bytes), 0) <= 0) return true;
    }
  }

 private:
  static std::string big_endian(std::uint32_t number, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(number >> (8 * i));
    return text;
  }
  static std::string frame(int type, int flags, std::uint32_t stream, const std::string& payload) {
    return big_endian(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
           static_cast<char>(flags) + big_endian(stream, 4) + payload;
  }
  // HPACK: a literal without indexing, names and values shorter than 127 bytes.
  static void add(std::string& headers, const std::string& name, const std::string& value) {
    headers += '\0';
    headers += static_cast<char>(name.size()) + name;
    headers += static_cast<char>(value.size()) + value;
  }

  int socket_;
};

}  // namespace square::testing
