// host:port as options and peers write it, and whether other machines reach a host.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square::net {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  std::uint16_t port = 0;

  // host:port or [ipv6]:port.
  [[nodiscard]] std::string to_string() const;
};

// "host:port" or "[ipv6]:port". An address that the system takes in another spelling becomes the usual
// one: 127.1 is 127.0.0.1. Looks nothing up. Errors: INVALID_ARGUMENT with the text and what is wrong.
Result<HostPort> parse_host_port(std::string_view text);

// Whether only this machine reaches the host: whatever the system finds under it is in 127.0.0.0/8, or
// ::1, or such an IPv4 address mapped to IPv6. A name that the system does not know is no loopback.
// `address` is a host (an IPv6 address with brackets or without), or host:port. Blocks while a name is
// looked up.
bool is_loopback(std::string_view address);

// Of what was dialled or accepted, "HOST:PORT" in any spelling: without the port.
inline std::string_view host_part(std::string_view peer) { return peer.substr(0, peer.rfind(':')); }

// 0.0.0.0 or ::, in any spelling, which no peer can dial. `host` as in HostPort. Looks nothing up.
bool is_wildcard(std::string_view host);

}  // namespace square::net
