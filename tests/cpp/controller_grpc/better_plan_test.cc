// Where planning takes long: a plan at once, the policy's own when it is ready, and nobody waits for another.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "controller_grpc/fixture.h"
#include "square/validator.h"

using namespace square;
using namespace square::test;

namespace {

std::vector<std::string> names_of(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t v = 0; v < count; ++v) names.push_back(fmt::format("n{:02}", v));
  return names;
}

// Links of uneven capacity.
Scenario uneven_mesh(std::size_t count) {
  Scenario scenario = mesh(names_of(count));
  scenario.topology = *full_mesh(names_of(count), LinkProperties{});
  REQUIRE(draw_capacities(scenario.topology, 10e6, 1e6, 7).is_ok());
  return scenario;
}

GroupSpec all_reduce_group(const std::string& name, std::size_t count) {
  GroupSpec group = broadcast_group(name, names_of(count));
  group.collectives = {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}};
  return group;
}

}  // namespace

TEST_CASE("a group that takes long to plan has a plan at once, and then a better one") {
  // About half a second of planning.
  const auto controller = start(uneven_mesh(16));
  const auto registered = controller->register_group(all_reduce_group("large", 16));
  REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
  const auto first = controller->plan();
  CHECK(find_violations(*first).empty());
  REQUIRE(eventually([&] { return !controller->plan()->provisional; }));
  const auto last = controller->plan();
  CHECK(last->min_rate_bps >= first->min_rate_bps);
  // What runs keeps its sessions.
  CHECK(std::ranges::equal(last->sessions, first->sessions, {}, &PlanSession::id, &PlanSession::id));
  if (first->provisional) CHECK(last->epoch == Epoch(first->epoch.value() + 1));
}

TEST_CASE("a request that cannot be planned does not take the better plan from the others") {
  Scenario scenario = uneven_mesh(16);
  REQUIRE(scenario.topology.add_node({"island"}).is_ok());
  const auto controller = start(scenario);
  const auto registered = controller->register_group(all_reduce_group("large", 16));
  REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
  const auto refused = controller->register_group(broadcast_group("no way", {"n00", "island"}));
  CHECK(refused.status().code() == StatusCode::kFailedPrecondition);
  CHECK(eventually([&] { return !controller->plan()->provisional; }));
}

TEST_CASE("one tenant's plan of minutes holds up no other tenant, and not the end") {
  const auto controller = start(uneven_mesh(40));
  const auto large = controller->register_group(all_reduce_group("large", 40));
  REQUIRE_MESSAGE(large.is_ok(), large.status().to_string());
  CHECK(controller->plan()->provisional);
  for (int k = 0; k < 3; ++k) {
    const auto small = controller->register_group(broadcast_group(fmt::format("small {}", k), names_of(2)));
    REQUIRE_MESSAGE(small.is_ok(), small.status().to_string());
    CHECK(small->epoch > large->epoch);
  }
  const auto refused = controller->register_group(all_reduce_group("another", 41));
  CHECK_FALSE(refused.is_ok());
  CHECK(controller->plan()->collectives.size() == 4);
}
