// The versions of a protocol that a release speaks, and the one that two releases speak with one another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

// Both are spoken, and all between them.
struct ProtocolVersions {
  std::uint32_t oldest = 0;
  std::uint32_t newest = 0;

  [[nodiscard]] bool contains(std::uint32_t version) const { return oldest <= version && version <= newest; }
};

// What a process of this build speaks. In a build with tests, SQUARE_TEST_RELEASE=before has it speak the
// oldest version alone, as the release before this one, and SQUARE_TEST_RELEASE=next the newest and one more.
ProtocolVersions versions_of_release(std::uint32_t oldest, std::uint32_t newest);

// As a peer says them: its oldest version, which is all that releases say that speak one alone, and its
// newest.
ProtocolVersions versions_said(std::uint32_t oldest, std::uint32_t newest);

struct Speaker {
  std::string name;  // as errors have it, "node \"a\""
  ProtocolVersions versions;
};

// The version that the two speak with one another: the lower of their newest. Errors: FAILED_PRECONDITION
// where one does not speak that; it says what both speak, and which one is to be upgraded.
Result<std::uint32_t> agree_on_version(std::string_view protocol, const Speaker& peer, const Speaker& self);

// "11", or "11 to 12".
std::string to_string(const ProtocolVersions& versions);

}  // namespace square
