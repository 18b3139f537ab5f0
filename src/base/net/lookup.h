// What the system finds under a host's name.
#pragma once

#include <netdb.h>

#include <memory>

#include "base/net/address.h"

namespace square::net {

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// For TCP; never empty. `flags` are those of getaddrinfo(), AI_PASSIVE to listen, AI_NUMERICHOST for
// addresses alone. Blocks while a name is looked up. Errors: UNAVAILABLE with the address and the reason.
Result<AddressList> look_up(const HostPort& address, int flags);

}  // namespace square::net
