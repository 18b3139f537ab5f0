// What one controller leaves to the next.
#include "controller/succession.h"

#include <doctest/doctest.h>

#include "recorded_line.h"
#include "some_members.h"

using namespace square;
using namespace square::controller;

namespace {

GroupSpec next_of(const std::string& group, std::uint64_t number) {
  GroupSpec next{group + "~1", "alice", {"a"}, {}};
  next.origin = {group, number, {Rank(0)}, {}};
  return next;
}

}  // namespace

TEST_CASE("succession: each member is told once of what was given, and who comes of all of it") {
  Topology topology;
  for (const std::string node : {"a", "b"}) REQUIRE(topology.add_node({node}).is_ok());
  GroupRegistry registry{Scenario()};
  Members members(std::chrono::seconds(10));
  const auto join = [&](const std::string& name) {
    auto line = std::make_shared<RecordedLine>();
    members.join(hello_of(name, 1, "here:1"), line, TimePoint());
    Succession::tell(registry, members);
    return line;
  };
  const auto a = join("a");
  REQUIRE(a->given.size() == 1);
  CHECK(a->given[0].next_group() == registry.next_group());
  const auto go_on = [&](const std::string& group, std::uint64_t number) {
    const auto made = registry.add(next_of(group, number), topology);
    REQUIRE(made.is_ok());
    CHECK_FALSE(registry.went_on().find(group, number));  // nobody has been told
    registry.note_told(group + "~1", made->number, {"a"});
    CHECK(registry.went_on().find(group, number));
  };
  go_on("g", 7);
  Succession::tell(registry, members);
  Succession::tell(registry, members);
  REQUIRE(a->given.size() == 2);
  CHECK(a->given[1].next_group() == registry.next_group());
  REQUIRE(a->given[1].went_on_size() == 1);
  CHECK(a->given[1].went_on(0).next() == "g~1");
  go_on("h", 8);
  const auto b = join("b");
  REQUIRE(a->given.size() == 3);
  REQUIRE(a->given[2].went_on_size() == 1);
  CHECK(a->given[2].went_on(0).group() == "h");
  REQUIRE(b->given.size() == 1);
  CHECK(b->given[0].went_on_size() == 2);
}

TEST_CASE("succession: of those that went on the latest are remembered") {
  GroupRegistry registry{Scenario()};
  for (std::uint64_t number = 0; number <= kMaxWentOn; ++number) {
    for (int time = 0; time < 2; ++time) registry.note_went_on({"g", number, "alice", "g~1"});
  }
  CHECK(registry.went_on().list().size() == kMaxWentOn);
  CHECK(registry.went_on().count() == kMaxWentOn + 1);
  CHECK_FALSE(registry.went_on().find("g", 0));
  CHECK(registry.went_on().find("g", 1));
}
