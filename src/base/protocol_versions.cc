#include "base/protocol_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace square {

#ifdef SQUARE_TEST_RELEASES
ProtocolVersions versions_of_release(std::uint32_t oldest, std::uint32_t newest) {
  const char* const named = std::getenv("SQUARE_TEST_RELEASE");
  const std::string_view release = named == nullptr ? "" : named;
  if (release == "before") return {oldest, oldest};
  if (release == "next") return {newest, newest + 1};
  return {oldest, newest};
}
#else
ProtocolVersions versions_of_release(std::uint32_t oldest, std::uint32_t newest) { return {oldest, newest}; }
#endif

ProtocolVersions versions_said(std::uint32_t oldest, std::uint32_t newest) {
  return {oldest, std::max(oldest, newest)};
}

Result<std::uint32_t> agree_on_version(std::string_view protocol, const Speaker& peer, const Speaker& self) {
  const std::uint32_t version = std::min(peer.versions.newest, self.versions.newest);
  if (peer.versions.contains(version) && self.versions.contains(version)) return version;
  const Speaker& older = peer.versions.newest < self.versions.newest ? peer : self;
  return failed_precondition(fmt::format("{} speaks {} {}, {} {}; upgrade {}", peer.name, protocol,
                                         to_string(peer.versions), self.name, to_string(self.versions),
                                         older.name));
}

std::string to_string(const ProtocolVersions& versions) {
  return versions.oldest == versions.newest ? fmt::format("{}", versions.oldest)
                                            : fmt::format("{} to {}", versions.oldest, versions.newest);
}

}  // namespace square
