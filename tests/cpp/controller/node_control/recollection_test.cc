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
