#include "base/net/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/net/lookup.h"

namespace square::net {
namespace {

constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

void enable(const FileDescriptor& socket, int level, int option) {
  const int yes = 1;
  setsockopt(socket.get(), level, option, &yes, sizeof yes);
}

FileDescriptor make_socket(const addrinfo& at) {
  return FileDescriptor(socket(at.ai_family, at.ai_socktype | kSocketFlags, at.ai_protocol));
}

// A listening socket, or none with errno.
FileDescriptor try_listen(const addrinfo& at, std::uint16_t port, int backlog) {
  FileDescriptor made = make_socket(at);
  if (!made) return made;
  // A port that lingers after its last owner is free, a listening one is not.
  enable(made, SOL_SOCKET, SO_REUSEADDR);
  sockaddr_storage address{};
  std::memcpy(&address, at.ai_addr, at.ai_addrlen);
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) == 0 &&
      listen(made.get(), backlog) == 0) {
    return made;
  }
  return {};
}

std::uint16_t port_of(const FileDescriptor& listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

// 0, or the error's number.
int finish_connect(const FileDescriptor& socket, Duration timeout) {
  pollfd waiting{socket.get(), POLLOUT, 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int ready = poll(&waiting, 1, static_cast<int>(wait));
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

Status no_answer(const HostPort& address, int reason) {
  return unavailable(fmt::format("nobody answers at {}: {}", address.to_string(), describe_errno(reason)));
}

}  // namespace

Result<Listener> listen_on(const HostPort& address, int backlog) {
  const auto refuse = [&address](const std::string& why) {
    return unavailable(
        fmt::format("cannot listen at {}: {}; choose another address or port", address.to_string(), why));
  };
  const auto found = look_up(address, AI_PASSIVE);
  if (!found.is_ok()) return refuse(found.status().message());
  Listener listener{{}, address};
  int error = 0;
  for (const addrinfo* entry = found->get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor made = try_listen(*entry, listener.address.port, backlog);
    if (!made) {
      error = errno;
      // A machine without IPv6 may still know an IPv6 address of its host's name.
      if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) continue;
      return refuse(describe_errno(error));
    }
    listener.address.port = port_of(made);
    listener.sockets.push_back(std::move(made));
  }
  if (listener.sockets.empty()) return refuse(describe_errno(error));
  return listener;
}

FileDescriptor accept_from(const FileDescriptor& listening) {
  FileDescriptor accepted(accept4(listening.get(), nullptr, nullptr, kSocketFlags));
  if (accepted) enable(accepted, IPPROTO_TCP, TCP_NODELAY);
  return accepted;
}

Result<FileDescriptor> begin_connect(const HostPort& address) {
  const auto list = look_up(address, AI_NUMERICHOST);
  if (!list.is_ok()) return invalid_argument(list.status().message());
  const addrinfo& entry = **list;
  FileDescriptor made = make_socket(entry);
  if (!made) return no_answer(address, errno);
  enable(made, IPPROTO_TCP, TCP_NODELAY);
  if (connect(made.get(), entry.ai_addr, entry.ai_addrlen) == 0 || errno == EINPROGRESS) return made;
  return no_answer(address, errno);
}

int told_together(int one, int other) {
  const auto says_nothing = [](int reason) {
    return reason == 0 || reason == EAFNOSUPPORT || reason == EADDRNOTAVAIL || reason == ENETUNREACH;
  };
  if (says_nothing(one)) return says_nothing(other) && one != 0 ? one : other;
  return one == ECONNREFUSED && !says_nothing(other) ? other : one;
}

Result<FileDescriptor> connect_to(const HostPort& address, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const AddressList list, look_up(address, 0));
  int told = 0;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor made = make_socket(*entry);
    if (!made) {
      told = told_together(told, errno);
      continue;
    }
    int reason = connect(made.get(), entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) reason = finish_connect(made, timeout);
    if (reason == 0) {
      enable(made, IPPROTO_TCP, TCP_NODELAY);
      return made;
    }
    told = told_together(told, reason);
  }
  return no_answer(address, told);
}

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
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

}  // namespace square::net
