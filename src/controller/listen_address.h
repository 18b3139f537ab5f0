// Where a controller listens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square::controller {

struct HostPort {
  std::string host;  // an IPv6 address without its brackets
  std::uint16_t port = 0;
};

// "host:port" or "[ipv6]:port". Errors: INVALID_ARGUMENT.
Result<HostPort> parse_host_port(std::string_view address);
std::string to_string(const HostPort& address);

// 127.0.0.0/8, ::1 and localhost.
bool is_loopback(std::string_view host);

// Whether this machine can listen there now; gRPC does not say why it cannot. Errors: UNAVAILABLE
// with the reason. Blocks while a host name is looked up.
Status check_bindable(const HostPort& address);

}  // namespace square::controller
