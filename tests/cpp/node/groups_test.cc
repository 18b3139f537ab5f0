// Groups, what their members called, and who waits to hear of an operation.
#include "node/groups/groups.h"

#include <doctest/doctest.h>

#include "node/groups/calls.h"
#include "node/groups/watches.h"
#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

OperationKey key_of(std::uint32_t collective, std::uint64_t operation) {
  return {CollectiveId(collective), OperationId(operation)};
}

const std::string kNode = "n0";

}  // namespace

TEST_CASE("a failure poisons every collective of the group, once, and those that join it later") {
  Groups groups;
  groups.set_members(CollectiveId(1), "g", {Rank(0)});
  groups.set_members(CollectiveId(2), "g", {Rank(0)});
  groups.set_members(CollectiveId(3), "other", {Rank(0)});
  const Status cause = unavailable("lost");
  CHECK(groups.poison(key_of(2, 5), cause) == std::vector<CollectiveId>{CollectiveId(2), CollectiveId(1)});
  CHECK(groups.poison(key_of(1, 0), unavailable("later")).empty());
  CHECK_FALSE(groups[CollectiveId(3)].failure);
  CHECK(groups[CollectiveId(1)].failure->message() == "lost");
  CHECK(groups[CollectiveId(2)].failed_operation == OperationId(5));
  CHECK(groups[CollectiveId(1)].failed_before(CollectiveId(1)).code() == StatusCode::kFailedPrecondition);
  CHECK(groups.set_members(CollectiveId(4), "g", {Rank(1)}).failure->message() == "lost");
}

TEST_CASE(
    "a late call of what failed is known by its operation, or by the group's call that members differ in") {
  Groups groups;
  for (const std::uint32_t id : {1U, 2U}) groups.set_members(CollectiveId(id), "g", {Rank(0)});
  CHECK_FALSE(groups.look(CollectiveId(1)).has_failed_with(OperationId(0), {CallKind::kBarrier, 0}));
  groups.poison(key_of(2, 5), invalid_argument("differs"), {CallKind::kReduce, 7});
  CHECK(groups.look(CollectiveId(2)).has_failed_with(OperationId(5), {}));
  CHECK_FALSE(groups.look(CollectiveId(1)).has_failed_with(OperationId(5), {CallKind::kBarrier, 8}));
  CHECK(groups.look(CollectiveId(1)).has_failed_with(OperationId(0), {CallKind::kBarrier, 7}));
  CHECK_FALSE(groups.look(CollectiveId(1)).has_failed_with(OperationId(0), {CallKind::kNone, 7}));
  CHECK(groups.set_members(CollectiveId(3), "g", {Rank(0)})
            .has_failed_with(OperationId(0), {CallKind::kBarrier, 7}));
}

TEST_CASE("a closed group is of no name, and its successor knows nothing of its failure") {
  Groups groups;
  groups.set_members(CollectiveId(1), "g", {Rank(0)});
  CHECK(groups.close("g") == std::vector<CollectiveId>{CollectiveId(1)});
  CHECK(groups.close("g").empty());
  CHECK(groups.look(CollectiveId(1)).is_closed);
  groups.poison(key_of(1, 0), unavailable("late"));
  CHECK_FALSE(groups.set_members(CollectiveId(2), "g", {Rank(0)}).failure);
  CHECK(groups.size() == 2);
  groups.forget(CollectiveId(1));
  groups.forget(CollectiveId(7));
  CHECK_FALSE(groups.knows(CollectiveId(1)));
  CHECK_FALSE(groups.look(CollectiveId(1)).is_closed);
  CHECK(groups.size() == 1);
}

TEST_CASE("what has finished is known in any order, and what is far ahead is nobody's") {
  Collective collective;
  for (const std::uint64_t operation : {2U, 0U, 1U, 4U}) collective.finish(OperationId(operation));
  CHECK(collective.all_finished_below == 3);
  CHECK(collective.finished.size() == 1);
  CHECK(collective.has_finished(OperationId(4)));
  CHECK_FALSE(collective.has_finished(OperationId(3)));
  CHECK(collective.is_near(OperationId(2 + kMaxOperationsAhead)));
  CHECK_FALSE(collective.is_near(OperationId(3 + kMaxOperationsAhead)));
}

TEST_CASE("a speaker that lives again is not the one that was heard") {
  Groups groups;
  const Groups::Speaker speaker{SessionId(1), NodeId(0), kNode};
  CHECK(groups.check_life(CollectiveId(1), speaker, 7).is_ok());
  CHECK(groups.check_life(CollectiveId(1), speaker, 7).is_ok());
  CHECK(groups.check_life(CollectiveId(1), {SessionId(2), NodeId(0), kNode}, 8).is_ok());
  const Status again = groups.check_life(CollectiveId(1), speaker, 8);
  CHECK(again.code() == StatusCode::kFailedPrecondition);
  CHECK(again.message().find("\"n0\" was restarted") != std::string::npos);
}

TEST_CASE("calls of one number differ by kind, and one operation by number") {
  Calls calls("n0");
  const HeardCall reduce{{CallKind::kReduce, 3}, "rank 9"};
  CHECK_FALSE(calls.compare("g", key_of(1, 0), reduce));
  calls.note("g", key_of(1, 0), Rank(2), {CallKind::kBroadcast, 3});
  const auto difference = calls.compare("g", key_of(2, 0), reduce);
  REQUIRE(difference);
  CHECK(difference->running == std::set<OperationKey>{key_of(1, 0)});
  CHECK(difference->cause.message().find("rank 2 on node \"n0\"") != std::string::npos);
  CHECK(calls.compare("g", key_of(1, 0), {{CallKind::kReduce, 4}, "rank 9"}));
  CHECK_FALSE(calls.compare("g", key_of(2, 0), {{CallKind::kReduce, 4}, "rank 9"}));
  CHECK_FALSE(calls.compare("other", key_of(2, 0), reduce));
  CHECK_FALSE(calls.compare("g", key_of(1, 0), {{CallKind::kBroadcast, 3}, "rank 9"}));
  calls.forget("g", key_of(1, 0));
  CHECK_FALSE(calls.compare("g", key_of(2, 0), reduce));
}

TEST_CASE("a watch is told once: of its operation, of its collective, of all, or that it is late") {
  Alone alone("n0");
  Watches watches(alone.simulation.clock(), *alone.executor);
  std::vector<std::string> said;
  const auto add = [&](const std::string& name, const OperationKey& key, Duration timeout) {
    watches.add(key, timeout, [&said, name](const Status& outcome) {
      said.push_back(name + (outcome.is_ok() ? "" : " " + outcome.message()));
    });
  };
  add("a", key_of(1, 0), std::chrono::seconds(1));
  add("b", key_of(1, 0), Duration::max());
  add("c", key_of(1, 1), Duration::max());
  add("d", key_of(2, 0), std::chrono::seconds(1));
  add("e", key_of(3, 0), Duration::max());
  watches.tell(key_of(1, 0), Status::ok());
  watches.tell(key_of(1, 0), Status::ok());
  CHECK(said == std::vector<std::string>{"a", "b"});
  watches.tell_collective(CollectiveId(1), unavailable("gone"));
  alone.run(std::chrono::seconds(2));
  watches.tell_all(cancelled("stopped"));
  CHECK(said == std::vector<std::string>{"a", "b", "c gone", "d nothing arrived in time", "e stopped"});
  CHECK_FALSE(watches.is_full());
}
