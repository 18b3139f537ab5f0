#include "trust/block_audit.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::trust;

namespace {

BlockSight sight_of(std::uint64_t sequence, const std::string& from, std::uint64_t payload) {
  BlockSight sight;
  sight.name.sequence = sequence;
  sight.from = from;
  sight.digest = digest_of({payload}, {});
  return sight;
}

}  // namespace

TEST_CASE("who tells of blocks that there never were keeps nobody from naming it") {
  BlockAudit audit;
  std::uint64_t invented = 1'000'000;
  const auto flood = [&] {
    for (std::size_t i = 0; i < 2 * kMaxAuditedBlocks; ++i)
      CHECK(audit.note("mallory", sight_of(++invented, "", 0)).empty());
  };
  flood();
  CHECK(audit.note("a", sight_of(1, "", 7)).empty());
  flood();
  CHECK(audit.note("mallory", sight_of(1, "a", 7)).empty());
  flood();
  const auto found = audit.note("b", sight_of(1, "mallory", 8));
  REQUIRE(found.size() == 1);
  CHECK(found[0].from == "mallory");
  CHECK(found[0].to == "b");
}
