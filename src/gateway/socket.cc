#include "gateway/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "base/check.h"
#include "controller/listen_address.h"

namespace square::gateway {
namespace {

using controller::HostPort;
using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

constexpr int kBacklog = 128;
constexpr int kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

Result<AddressList> look_up(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (failed != 0) {
    return unavailable(fmt::format("{} is not known: {}", to_string(address), gai_strerror(failed)));
  }
  return AddressList(list, freeaddrinfo);
}

void set_no_delay(int descriptor) {
  const int yes = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::uint16_t bound_port(int descriptor) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
}

// 0, or the error's number.
int finish_connect(int descriptor, Duration timeout) {
  pollfd waiting{descriptor, POLLOUT, 0};
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  const int ready = poll(&waiting, 1, static_cast<int>(wait));
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

std::string describe_errno(int number) { return std::generic_category().message(number); }

FileDescriptor::~FileDescriptor() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<Listener> listen_at(std::string_view address, bool has_token) {
  SQUARE_ASSIGN_OR_RETURN(HostPort host, controller::parse_host_port(address));
  if (!controller::is_loopback(host.host) && !has_token) {
    return invalid_argument(fmt::format(
        "other machines can reach {}: set a token, the same for the gateway and for who attaches", address));
  }
  SQUARE_ASSIGN_OR_RETURN(const AddressList list, look_up(host, AI_PASSIVE));
  int reason = 0;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor descriptor(
        socket(entry->ai_family, entry->ai_socktype | kSocketFlags, entry->ai_protocol));
    const int yes = 1;
    if (descriptor) setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (!descriptor || bind(descriptor.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        listen(descriptor.get(), kBacklog) != 0) {
      reason = errno;
      continue;
    }
    host.port = bound_port(descriptor.get());
    return Listener{std::move(descriptor), to_string(host)};
  }
  return unavailable(fmt::format("cannot listen at {}: {}; choose another address or port", address,
                                 describe_errno(reason)));
}

FileDescriptor accept_from(const FileDescriptor& listener) {
  FileDescriptor accepted(accept4(listener.get(), nullptr, nullptr, kSocketFlags));
  if (accepted) set_no_delay(accepted.get());
  return accepted;
}

Result<FileDescriptor> connect_to(std::string_view address, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const HostPort host, controller::parse_host_port(address));
  SQUARE_ASSIGN_OR_RETURN(const AddressList list, look_up(host, 0));
  int reason = 0;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor descriptor(
        socket(entry->ai_family, entry->ai_socktype | kSocketFlags, entry->ai_protocol));
    if (!descriptor) {
      reason = errno;
      continue;
    }
    reason = connect(descriptor.get(), entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    if (reason == EINPROGRESS) reason = finish_connect(descriptor.get(), timeout);
    if (reason != 0) continue;
    set_no_delay(descriptor.get());
    return descriptor;
  }
  return unavailable(fmt::format("no gateway answers at {}: {}; start one with `square node --gateway`",
                                 address, describe_errno(reason)));
}

}  // namespace square::gateway
