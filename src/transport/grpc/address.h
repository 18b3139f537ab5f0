// host:port as options and peers write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square::rpc {

struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  std::uint16_t port = 0;

  [[nodiscard]] std::string to_string() const;
};

// Errors: INVALID_ARGUMENT with the text.
Result<HostPort> parse_host_port(std::string_view text);

// Whether only this machine reaches the host: "localhost", 127.0.0.0/8, ::1.
bool is_loopback(std::string_view host);
// 0.0.0.0 or ::, which no peer can dial.
bool is_wildcard(std::string_view host);

// Whether a server could listen there now. gRPC itself neither says why it could not nor
// keeps quiet about it. Errors: UNAVAILABLE with the address and the reason.
Status check_listenable(const HostPort& address);

}  // namespace square::rpc
