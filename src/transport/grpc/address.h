// host:port as options and peers write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// Sockets that listen on every address of the host, and the port: one of its own for all if
// the address names port 0. Errors: UNAVAILABLE with the address and the reason.
struct ListeningSockets {
  std::vector<int> sockets;  // the caller closes them
  std::uint16_t port = 0;
};
Result<ListeningSockets> listen_on(const HostPort& address, int backlog);

// How gRPC names the other end of an accepted socket, without the scheme; empty if it has
// none any more.
std::string peer_of(int socket);
// The same from what a server's call says.
std::string peer_of_call(std::string_view uri);

}  // namespace square::rpc
