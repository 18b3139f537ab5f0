#include "base/net/lookup.h"

#include <fmt/format.h>

namespace square::net {

Result<AddressList> look_up(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (failed != 0) {
    return unavailable(fmt::format("{} is not known: {}", address.to_string(), gai_strerror(failed)));
  }
  return AddressList(list, freeaddrinfo);
}

}  // namespace square::net
