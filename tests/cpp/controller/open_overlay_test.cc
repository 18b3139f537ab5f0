// An overlay that grows with its nodes, without the coordinator.
#include "controller/open_overlay.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::controller;

namespace {

PlanningState empty_state() { return {"", {}, {}, {}, GroupRegistry(Scenario{}), {}}; }

std::size_t links_of(const Topology& topology, const std::string& node) {
  return topology.out_links(*topology.find_node(node)).size();
}

}  // namespace

TEST_CASE("open overlay: the topology follows who came, and a plan is due where groups are") {
  OpenOverlay overlay;
  PlanningState state = empty_state();
  CHECK_FALSE(overlay.update(state));
  overlay.join("a", state.topology);
  overlay.join("b", state.topology);
  CHECK_FALSE(overlay.update(state));  // of no group
  CHECK(state.topology.link_count() == 2);
  REQUIRE(state.registry
              .add({"g", "tenant", {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}}, state.topology)
              .is_ok());
  overlay.join("a", state.topology);  // is back
  CHECK_FALSE(overlay.update(state));
  overlay.join("c", state.topology);
  CHECK(overlay.update(state));
  CHECK(links_of(state.topology, "c") == 2);
  // Gone before the topology has heard of it.
  overlay.join("d", state.topology);
  overlay.leave("d");
  CHECK_FALSE(overlay.update(state));
  CHECK_FALSE(state.topology.find_node("d").has_value());
}

TEST_CASE("open overlay: a node that left loses its links once no group has it") {
  OpenOverlay overlay;
  PlanningState state = empty_state();
  for (const char* name : {"a", "b", "c"}) overlay.join(name, state.topology);
  overlay.update(state);
  REQUIRE(state.registry
              .add({"g", "tenant", {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}}, state.topology)
              .is_ok());
  overlay.leave("b");
  overlay.leave("c");
  CHECK(overlay.update(state));
  CHECK(overlay.is_gone("c"));
  CHECK_FALSE(overlay.is_gone("b"));
  CHECK(links_of(state.topology, "c") == 0);
  CHECK(links_of(state.topology, "b") == 1);

  const NodeId id = *state.topology.find_node("c");
  overlay.join("c", state.topology);
  CHECK(overlay.update(state));
  CHECK_FALSE(overlay.is_gone("c"));
  CHECK(state.topology.find_node("c") == id);
  CHECK(links_of(state.topology, "c") == 2);
}

TEST_CASE("open overlay: a mesh has room for so many") {
  CHECK(OpenOverlay::check_room(kMaxMeshedNodes - 1).is_ok());
  CHECK(OpenOverlay::check_room(kMaxMeshedNodes).code() == StatusCode::kResourceExhausted);
}
