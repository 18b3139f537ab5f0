// Collectives among some members of a group: over the wire, and as they are planned.
#include "controller/some_members.h"

#include "controller_grpc/fixture.h"
#include "square/validator.h"

using namespace square;
using namespace square::test;

TEST_CASE("a controller plans messages as multicasts to one, and refuses what the registry does") {
  const auto controller = start(mesh({"a", "b", "c"}));
  const auto node = FakeNode::join(*controller, "a");
  // Over the wire: members and channels arrive as they were sent.
  const auto made = node->client().register_group(
      group_of({message(0, 1), message(0, 1, 0xffffffffU), message(2, 0)}), kPatience);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  const auto again =
      controller->register_group(group_of({message(2, 0), message(0, 1, 0xffffffffU), message(0, 1)}));
  REQUIRE(again.is_ok());
  CHECK(again->collectives == std::vector{made->collectives[2], made->collectives[1], made->collectives[0]});
  CHECK(again->epoch == made->epoch);
  const Plan plan = *controller->plan();
  CHECK(plan.collectives.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const PlanCollective* const collective = plan.find_collective(made->collectives[i]);
    REQUIRE(collective != nullptr);
    REQUIRE(collective->sessions.size() == 1);
    const PlanSession* const session = plan.find_session(collective->sessions[0]);
    CHECK(session->members.size() == 2);
    CHECK(session->root == plan.find_node(i == 2 ? "c" : "a"));
    CHECK(session->rate_bps > 0);
  }
  CHECK(validate(plan).is_ok());
  const auto refused =
      node->client().register_group(group_of({among(CollectiveOp::kBroadcast, 0, {2, 0})}), kPatience);
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().message().find("not ascending ranks below 3") != std::string::npos);
}
