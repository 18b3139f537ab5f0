// Who is which rank of a gateway's groups.
#include "gateway/group_table.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::gateway;

namespace {

constexpr AttachmentId kStale = 1;
constexpr AttachmentId kOther = 2;

GroupSpec group_of(const std::string& tenant) {
  return {"train", tenant, {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
}

GroupRegistration made(std::uint64_t number, std::uint32_t collective) {
  return {{CollectiveId(collective)}, Epoch(1), number};
}

}  // namespace

TEST_CASE("who registered a group that has ended has no part in another of its name") {
  GroupTable table("a");
  table.add(group_of("mallory"), made(1, 10), kStale);
  table.add(group_of("alice"), made(2, 20), kOther);
  table.join("train", kOther, Rank(0), nullptr);
  const auto post = [&](std::uint32_t collective, AttachmentId who) {
    return table.claim(CollectiveId(collective), OperationId(0), Rank(0), who, "somebody").code();
  };
  CHECK(post(20, kStale) == StatusCode::kPermissionDenied);
  CHECK(post(10, kStale) == StatusCode::kPermissionDenied);
  CHECK(post(20, kOther) == StatusCode::kOk);
  // Its registration is told late.
  table.add(group_of("mallory"), made(1, 10), kStale);
  CHECK(post(20, kStale) == StatusCode::kPermissionDenied);
  CHECK(post(10, kStale) == StatusCode::kPermissionDenied);
  CHECK_FALSE(table.has("train", kStale));
}
