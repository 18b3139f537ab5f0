#include "transport/grpc/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "transport/grpc/handshake.h"

namespace square::rpc {

std::string HostPort::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return invalid_argument(fmt::format("\"{}\" is not host:port: {}", text, why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("there is no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad("an IPv6 address needs brackets");
  }
  if (host.empty()) return bad("there is no host");
  HostPort address{std::string(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad("the port is not a number up to 65535");
  }
  return address;
}

bool is_loopback(std::string_view host) {
  const std::string text(host);
  if (text == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24U) == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_wildcard(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

namespace {

// A listening socket, or -1 with errno.
int try_listen(const addrinfo& at, std::uint16_t port, int backlog) {
  const int made = socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol);
  if (made < 0) return -1;
  // A port that lingers after its last owner is free, a listening one is not.
  const int enable = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &enable, sizeof(enable));
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  if (bind(made, reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) == 0 &&
      listen(made, backlog) == 0) {
    return made;
  }
  const int reason = errno;
  close(made);
  errno = reason;
  return -1;
}

std::uint16_t port_of(int listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

Result<ListeningSockets> listen_on(const HostPort& address, int backlog) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    return unavailable(fmt::format("cannot listen on {}: {}", address.to_string(), gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  ListeningSockets listening{{}, address.port};
  int error = 0;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int made = try_listen(*entry, listening.port, backlog);
    if (made < 0) {
      error = errno;
      // A machine without IPv6 may still know an IPv6 address of its host's name.
      if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) continue;
      break;
    }
    listening.sockets.push_back(made);
    listening.port = port_of(made);
    error = 0;
  }
  if (!listening.sockets.empty() && error != EADDRINUSE && error != EACCES) return listening;
  for (const int made : listening.sockets) close(made);
  return unavailable(fmt::format("cannot listen on {}: {}; choose another address or port",
                                 address.to_string(), std::strerror(error)));
}

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  const std::uint16_t port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return fmt::format("{}:{}", text.data(), port);
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  if (v6.sin6_scope_id == 0) return fmt::format("[{}]:{}", text.data(), port);
  return fmt::format("[{}%{}]:{}", text.data(), v6.sin6_scope_id, port);
}

std::string peer_of_call(std::string_view uri) {
  const std::string_view peer = uri.substr(uri.find(':') + 1);
  auto decoded = percent_decode(peer);
  return decoded.is_ok() ? *std::move(decoded) : std::string(peer);
}

}  // namespace square::rpc
