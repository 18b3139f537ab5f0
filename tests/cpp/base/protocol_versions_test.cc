// Which version two releases speak with one another.
#include "base/protocol_versions.h"

#include <doctest/doctest.h>

using namespace square;

namespace {

Result<std::uint32_t> agreed(ProtocolVersions peer, ProtocolVersions self) {
  return agree_on_version("the protocol", {"node \"a\"", peer}, {"the controller", self});
}

}  // namespace

TEST_CASE("two releases speak the lower of their newest versions") {
  CHECK(agreed({12, 12}, {12, 12}).value() == 12);
  CHECK(agreed({11, 12}, {11, 12}).value() == 12);
  CHECK(agreed({11, 11}, {11, 12}).value() == 11);
  CHECK(agreed({11, 12}, {11, 11}).value() == 11);
  CHECK(agreed({12, 13}, {11, 12}).value() == 12);
  CHECK(agreed({1, 99}, {11, 12}).value() == 12);
}

TEST_CASE("releases that are too far apart are refused, and the older one is to be upgraded") {
  const Status old_peer = agreed({9, 10}, {11, 12}).status();
  CHECK(old_peer == failed_precondition("node \"a\" speaks the protocol 9 to 10, the controller 11 to 12; "
                                        "upgrade node \"a\""));
  const Status old_self = agreed({13, 13}, {11, 12}).status();
  CHECK(old_self == failed_precondition("node \"a\" speaks the protocol 13, the controller 11 to 12; "
                                        "upgrade the controller"));
}

TEST_CASE("a peer of before there were two versions says one, and one that says nonsense speaks its oldest") {
  CHECK(versions_said(11, 0).newest == 11);
  CHECK(versions_said(11, 12).newest == 12);
  CHECK(versions_said(99, 12).newest == 99);
  CHECK_FALSE(agreed(versions_said(0, 0), {11, 12}).is_ok());
  CHECK_FALSE(agreed(versions_said(99, 12), {11, 12}).is_ok());
}
