// TCP sockets: to listen, to accept, to connect, and who is at the other end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "base/net/file_descriptor.h"
#include "square/status.h"
#include "square/units.h"

namespace square::net {

// Sockets that listen on every address that the host has, and the port: one of its own for all if port 0
// was asked for.
struct Listener {
  std::vector<FileDescriptor> sockets;  // none blocks; never empty
  HostPort address;                     // as bound
};

// Blocks while a name is looked up. Errors: UNAVAILABLE with the address and the reason.
Result<Listener> listen_on(const HostPort& address, int backlog);

// The next connection that waits; an empty descriptor, with errno, where none does. It does not block, and
// waits for nothing before it sends.
FileDescriptor accept_from(const FileDescriptor& listening);

// Connects within `timeout` for each address that the host has. The socket does not block, and waits for
// nothing before it sends. Errors: UNAVAILABLE with the address and the reason.
Result<FileDescriptor> connect_to(const HostPort& address, Duration timeout);

// Of a name's addresses two have not answered, for these reasons (errno): why the name does not. It refuses
// only if every address does that this machine has a way to.
int told_together(int one, int other);

// A socket that connects to a numeric address by itself: it may be written to when it has or could not, and
// its SO_ERROR tells which. It does not block. Errors: INVALID_ARGUMENT for a name; UNAVAILABLE with the
// address and the reason, where that is known at once.
Result<FileDescriptor> begin_connect(const HostPort& address);

// Address and port of the other end; an IPv4 address mapped to IPv6 as the one of IPv4. Empty if it is gone.
std::string peer_of(int socket);

}  // namespace square::net
