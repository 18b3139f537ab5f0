#include "controller/listen_address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace square::controller {

Result<HostPort> parse_host_port(std::string_view address) {
  const Status malformed =
      invalid_argument(fmt::format("\"{}\" is not an address; write host:port or [ipv6]:port", address));
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return malformed;
  std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  HostPort parsed;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return malformed;
  if (host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed;
  }
  if (host.empty()) return malformed;
  parsed.host = host;
  return parsed;
}

std::string to_string(const HostPort& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", address.host, ipv6 ? "]" : "", address.port);
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // "127.evil.example" is a name, not an address.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
}

Status check_bindable(const HostPort& address) {
  const auto refuse = [&](const std::string& reason) {
    return unavailable(
        fmt::format("cannot listen at {}: {}; choose another address or port", to_string(address), reason));
  };
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (failed != 0) return refuse(gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  int reason = 0;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const int descriptor = socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC, entry->ai_protocol);
    if (descriptor < 0) {
      reason = errno;
      continue;
    }
    const int yes = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    reason = bind(descriptor, entry->ai_addr, entry->ai_addrlen) == 0 ? 0 : errno;
    // Two sockets may be bound to one address with SO_REUSEADDR, but only one may listen.
    if (reason == 0 && listen(descriptor, 1) != 0) reason = errno;
    close(descriptor);
    if (reason == 0) return {};
  }
  return refuse(std::generic_category().message(reason));
}

}  // namespace square::controller
