// Collectives among some members of a group: what is refused, what is the same, what is planned.
#include "controller/group_registry.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "controller/mesh.h"
#include "controller/some_members.h"

using namespace square;
using namespace square::test;
using controller::GroupRegistry;

namespace {

struct Registry {
  Scenario scenario = mesh({"a", "b", "c"});
  GroupRegistry registry{Scenario{}};

  Result<GroupRegistry::Registered> add(const GroupSpec& spec) {
    return registry.add(spec, scenario.topology);
  }
  void check_refused(const GroupSpec& spec, const std::string& words) {
    const auto added = add(spec);
    REQUIRE_FALSE(added.is_ok());
    CHECK(added.status().code() == StatusCode::kInvalidArgument);
    CHECK_MESSAGE(added.status().message().find(words) != std::string::npos, added.status().message());
    CHECK(added.status().message().find("group \"g\"") != std::string::npos);
  }
  // What is planned for the collective.
  CollectiveSpec planned(CollectiveId id) const {
    Scenario filled = scenario;
    registry.fill(filled);
    const auto found = std::ranges::find(filled.collectives, id, &CollectiveSpec::id);
    REQUIRE(found != filled.collectives.end());
    return *found;
  }
};

}  // namespace

TEST_CASE("members of a collective are ascending ranks of the group, with its root") {
  Registry registry;
  const std::string order = "the members of its broadcast are not ascending ranks below 3";
  registry.check_refused(group_of({among(CollectiveOp::kBroadcast, 0, {1, 0})}), order);
  registry.check_refused(group_of({among(CollectiveOp::kBroadcast, 0, {0, 0})}), order);
  registry.check_refused(group_of({among(CollectiveOp::kBroadcast, 0, {0, 3})}), order);
  registry.check_refused(group_of({among(CollectiveOp::kBroadcast, 2, {0, 1})}),
                         "the root of its broadcast, rank 2, is not among the members");
  registry.check_refused(group_of({among(CollectiveOp::kReduce, 0, {1, 2})}),
                         "the root of its reduce, rank 0, is not among the members");
  registry.check_refused(group_of({among(CollectiveOp::kBroadcast, 3, {0, 1})}),
                         "the root of its broadcast is rank 3, but it has 3 members");
  // Where there is no root, none is asked for.
  CHECK(registry.add(group_of({among(CollectiveOp::kAllReduce, 7, {1, 2})})).is_ok());
}

TEST_CASE("one collective that cannot be keeps out the whole group, and nothing is left of it") {
  Registry registry;
  registry.check_refused(group_of({message(0, 1), among(CollectiveOp::kBroadcast, 2, {0, 1})}), "rank 2");
  CHECK(registry.registry.is_empty());
  const auto first = registry.add(group_of({message(0, 1)}));
  REQUIRE(first.is_ok());
  CHECK(first->changed);
  registry.check_refused(group_of({message(1, 0), among(CollectiveOp::kBroadcast, 0, {2, 0})}), "ascending");
  Scenario filled = registry.scenario;
  registry.registry.fill(filled);
  CHECK(filled.collectives.size() == 1);
}

TEST_CASE("a collective is registered once: by operation, root, members and channel") {
  Registry registry;
  const auto first = registry.add(
      group_of({message(0, 1), message(1, 0), message(0, 2), message(0, 1, 5),
                among(CollectiveOp::kReduce, 0, {0, 1}), among(CollectiveOp::kBroadcast, 0, {})}));
  REQUIRE_MESSAGE(first.is_ok(), first.status().to_string());
  auto ids = first->collectives;
  REQUIRE(ids.size() == 6);
  std::ranges::sort(ids);
  CHECK(std::ranges::adjacent_find(ids) == ids.end());
  // In another order, and one of them twice.
  const auto again = registry.add(
      group_of({message(0, 1, 5), message(0, 1), message(0, 1), among(CollectiveOp::kBroadcast, 0, {})}));
  REQUIRE(again.is_ok());
  CHECK_FALSE(again->changed);
  CHECK(again->collectives == std::vector{first->collectives[3], first->collectives[0], first->collectives[0],
                                          first->collectives[5]});
  // Twice in the registration that adds it.
  const auto twice = registry.add(group_of({message(2, 1), message(2, 1)}));
  REQUIRE(twice.is_ok());
  CHECK(twice->changed);
  CHECK(twice->collectives[0] == twice->collectives[1]);
  CHECK(twice->collectives[0] > ids.back());
}

TEST_CASE("a size that was not known is learnt, by the collective that has it") {
  Registry registry;
  GroupCollective sized = message(0, 1);
  const auto first = registry.add(group_of({sized, message(0, 1, 1)}));
  REQUIRE(first.is_ok());
  sized.size_bytes = 4'096;
  CHECK(registry.add(group_of({sized}))->changed);
  CHECK_FALSE(registry.add(group_of({sized}))->changed);
  CHECK(registry.planned(first->collectives[0]).size_bytes == 4'096);
  CHECK(registry.planned(first->collectives[1]).size_bytes == 0);
}

TEST_CASE("ranks that share a node are one member, in the plan of some of them too") {
  Registry registry;
  // Ranks 0 to 4.
  const std::vector<std::string> nodes{"b", "a", "b", "c", "a"};
  const auto added = registry.add(
      group_of({message(0, 2), message(4, 2), among(CollectiveOp::kReduce, 3, {1, 3, 4})}, nodes));
  REQUIRE_MESSAGE(added.is_ok(), added.status().to_string());
  const auto names = [&](const CollectiveSpec& planned) {
    std::vector<std::string> found;
    for (const NodeId node : planned.members) found.push_back(registry.scenario.topology.node(node).name);
    return found;
  };
  const CollectiveSpec local = registry.planned(added->collectives[0]);
  CHECK(names(local) == std::vector<std::string>{"b"});
  const CollectiveSpec far = registry.planned(added->collectives[1]);
  CHECK(names(far) == std::vector<std::string>{"b", "a"});
  CHECK(registry.scenario.topology.node(far.root).name == "a");
  const CollectiveSpec reduce = registry.planned(added->collectives[2]);
  CHECK(names(reduce) == std::vector<std::string>{"a", "c"});
  CHECK(registry.scenario.topology.node(reduce.root).name == "c");
}

TEST_CASE("each node has its own ranks of a collective's members") {
  const GroupSpec group = group_of({}, {"b", "a", "b", "c", "a"});
  const GroupCollective some = among(CollectiveOp::kReduce, 3, {1, 2, 3, 4});
  CHECK(members_on(group, some, "a") == std::vector{Rank(1), Rank(4)});
  CHECK(members_on(group, some, "b") == std::vector{Rank(2)});
  CHECK(members_on(group, message(0, 1), "c").empty());
  CHECK(members_on(group, GroupCollective{}, "b") == std::vector{Rank(0), Rank(2)});
}

TEST_CASE("a group ends when all of its members heard that their registrations failed") {
  Registry registry;
  const auto is_there = [](const std::string&) { return true; };
  const auto added = registry.add(group_of({among(CollectiveOp::kAllReduce, 0, {})}));
  REQUIRE(added.is_ok());
  const std::uint64_t number = added->number;
  CHECK_FALSE(registry.registry.note_failed("g", number, "a", is_there));
  CHECK_FALSE(registry.registry.note_failed("g", number + 1, "b", is_there));
  CHECK_FALSE(registry.registry.note_failed("other", number, "b", is_there));
  SUBCASE("one tries again") {
    GroupSpec again = group_of({among(CollectiveOp::kAllReduce, 0, {})});
    again.registrant = "a";
    CHECK(registry.add(again)->number == number);
    CHECK_FALSE(registry.registry.note_failed("g", number, "b", is_there));
    CHECK_FALSE(registry.registry.note_failed("g", number, "c", is_there));
    CHECK(registry.registry.note_failed("g", number, "a", is_there));
  }
  SUBCASE("a member there was told before that it has a part") {
    registry.registry.note_told("g", number, {"b"});
    CHECK_FALSE(registry.registry.note_failed("g", number, "b", is_there));
    CHECK_FALSE(registry.registry.note_failed("g", number, "c", is_there));
    CHECK(registry.registry.close("g", number, "b", is_there));
  }
  SUBCASE("somebody registered it for others") {
    registry.registry.note_told("g", number, {""});
    for (const char* node : {"b", "c", "a"})
      CHECK_FALSE(registry.registry.note_failed("g", number, node, is_there));
  }
}
