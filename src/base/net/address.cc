#include "base/net/address.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <optional>

#include "base/net/lookup.h"

namespace square::net {
namespace {

// The host of host:port, without brackets; the whole text where there is no port.
std::string_view host_of(std::string_view address) {
  if (address.starts_with('[')) {
    const std::size_t end = address.find(']');
    return end == std::string_view::npos ? address : address.substr(1, end - 1);
  }
  const std::size_t colon = address.find(':');
  const bool has_port =
      colon != std::string_view::npos && address.find(':', colon + 1) == std::string_view::npos;
  return has_port ? address.substr(0, colon) : address;
}

// 32 bits of an IPv4 address, also of one mapped to IPv6; none for other IPv6 addresses.
std::optional<std::uint32_t> ipv4_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr);
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&v6)) return std::nullopt;
  std::uint32_t bits = 0;
  for (int i = 12; i < 16; ++i) bits = bits << 8U | v6.s6_addr[i];
  return bits;
}

bool is_loopback(const sockaddr& address) {
  constexpr std::uint32_t kLoopbackNet = 127;
  if (const auto v4 = ipv4_of(address)) return *v4 >> 24U == kLoopbackNet;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

bool is_wildcard(const sockaddr& address) {
  if (const auto v4 = ipv4_of(address)) return *v4 == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
}

// A numeric address as it is usually written; what is a name stays as it is.
std::string usual_spelling(std::string_view host) {
  const HostPort numeric{std::string(host), 0};
  const auto found = look_up(numeric, AI_NUMERICHOST);
  std::array<char, NI_MAXHOST> text{};
  if (!found.is_ok() || getnameinfo((*found)->ai_addr, (*found)->ai_addrlen, text.data(), text.size(),
                                    nullptr, 0, NI_NUMERICHOST) != 0) {
    return numeric.host;
  }
  return text.data();
}

}  // namespace

std::string HostPort::to_string() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return invalid_argument(
        fmt::format("\"{}\" is not an address: {}; write host:port or [ipv6]:port", text, why));
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
  if (host.find_first_of("[]") != std::string_view::npos) return bad("no host has brackets in its name");
  HostPort address{usual_spelling(host), 0};
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad("the port is not a number up to 65535");
  }
  return address;
}

bool is_loopback(std::string_view address) {
  const auto found = look_up({std::string(host_of(address)), 0}, 0);
  if (!found.is_ok()) return false;
  for (const addrinfo* entry = found->get(); entry != nullptr; entry = entry->ai_next) {
    if (!is_loopback(*entry->ai_addr)) return false;
  }
  return true;
}

bool is_wildcard(std::string_view host) {
  const auto found = look_up({std::string(host), 0}, AI_NUMERICHOST);
  return found.is_ok() && is_wildcard(*(*found)->ai_addr);
}

}  // namespace square::net
