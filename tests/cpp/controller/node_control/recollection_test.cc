// What a node remembers of its controllers.
#include "controller/node_control/recollection.h"

#include <doctest/doctest.h>

#include "square/v1/controller.pb.h"

using namespace square;
using controller::Recollection;

namespace {

std::shared_ptr<const Plan> plan_of(std::uint64_t store, std::uint64_t term, std::uint32_t epoch) {
  Plan plan;
  plan.origin = {store, term};
  plan.epoch = Epoch(epoch);
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace

TEST_CASE("recollection: a plan of a controller that another has followed is refused") {
  Recollection recollection("n");
  REQUIRE(recollection.note_plan(plan_of(7, 2, 5)).is_ok());
  REQUIRE(recollection.note_plan(plan_of(7, 3, 1)).is_ok());
  // The epoch does not help it.
  const Status stale = recollection.note_plan(plan_of(7, 2, 9));
  CHECK(stale.code() == StatusCode::kFailedPrecondition);
  CHECK(recollection.past()->term() == 3);
  // Of another store nothing is known of which was first.
  CHECK(recollection.note_plan(plan_of(8, 1, 1)).is_ok());
}

TEST_CASE("recollection: the next controller is told what was given, and what went on") {
  Recollection recollection("n");
  REQUIRE(recollection.note_plan(plan_of(7, 2, 5)).is_ok());
  v1::Given given;
  given.set_next_group(12);
  given.add_went_on()->set_group("of others");
  recollection.note_given(given);
  given.set_next_group(11);  // an older word
  recollection.note_given(given);
  GroupSpec next{"g~1", "alice", {"n"}, {}};
  next.origin = {"g", 3, {Rank(0)}, {}};
  recollection.note_group(next, {.number = 4});
  recollection.forget_group("g~1", 4);
  const v1::Past past = *recollection.past();
  CHECK(past.next_group() == 12);
  CHECK(past.groups_size() == 0);
  REQUIRE(past.went_on_size() == 2);
  CHECK(past.went_on(0).group() == "of others");
  CHECK(past.went_on(1).group() == "g");
  CHECK(past.went_on(1).number() == 3);
  CHECK(past.went_on(1).tenant() == "alice");
  CHECK(past.went_on(1).next() == "g~1");
}

TEST_CASE("recollection: of nodes that were silent the next controller is told so until they speak") {
  Recollection recollection("n");
  REQUIRE(recollection.note_plan(plan_of(7, 2, 5)).is_ok());
  v1::Address other;
  other.set_peer("other");
  const auto may_live = [&] { return recollection.past()->addresses(0).may_live(); };
  recollection.note_address(other);
  CHECK_FALSE(may_live());
  recollection.note_silent("other");
  CHECK(may_live());
  recollection.note_address(other);
  CHECK_FALSE(may_live());
}
