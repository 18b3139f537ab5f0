// What sessions may not use, and what that proves.
#include <doctest/doctest.h>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;
using std::chrono::milliseconds;

// From s to x: 3 Mbit/s straight and slow, 5 over r and quick.
HandMade two_ways(SessionKind kind) {
  HandMade made({"s", "r", "x"});
  const bool reduce = kind == SessionKind::kReduce;
  const auto add_link = [&](const std::string& from, const std::string& to, double mbps, int latency_ms) {
    made.add_link(reduce ? to : from, reduce ? from : to, mbps);
    made.plan().links.back().latency = milliseconds(latency_ms);
  };
  add_link("s", "x", 3, 50);
  add_link("s", "r", 5, 10);
  add_link("r", "x", 5, 20);
  made.add_collective(reduce ? CollectiveOp::kReduce : CollectiveOp::kBroadcast, 1000);
  made.add_session(kind, {"s", "x"}, 0, 1000);
  return made;
}

void use_direct(HandMade& made) {
  const bool reduce = made.plan().sessions[0].kind == SessionKind::kReduce;
  made.add_stream({reduce ? std::pair<std::string, std::string>("x", "s")
                          : std::pair<std::string, std::string>("s", "x")},
                  3);
}
void use_relay(HandMade& made) {
  const bool reduce = made.plan().sessions[0].kind == SessionKind::kReduce;
  if (reduce) {
    made.add_stream({{"x", "r"}, {"r", "s"}}, 5);
  } else {
    made.add_stream({{"s", "r"}, {"r", "x"}}, 5);
  }
}

// A level whose only proof is the cut around x.
Plan& finish(HandMade& made, double bound_mbps) {
  made.add_level(bound_mbps, {0}, {}, {{0, {{"x"}}}});
  Plan& plan = made.finish();
  plan.collectives[0].bound_bps = mbps_to_bps(bound_mbps);
  return plan;
}

TEST_CASE("restrictions: without any, both ways count") {
  for (const SessionKind kind : {SessionKind::kMulticast, SessionKind::kReduce}) {
    HandMade made = two_ways(kind);
    use_direct(made);
    use_relay(made);
    CHECK(all_violations(finish(made, 8)) == "");
  }
}

TEST_CASE("restrictions: a link to avoid carries nothing and proves more") {
  for (const SessionKind kind : {SessionKind::kMulticast, SessionKind::kReduce}) {
    HandMade made = two_ways(kind);
    use_relay(made);
    made.plan().links[0].avoided = true;
    const Plan plan = finish(made, 5);
    CHECK(all_violations(plan) == "");
    check_tampered(
        plan, [](Plan& p) { p.links[0].avoided = false; }, "its duals prove 8 Mbit/s");
    check_tampered(
        plan, [](Plan& p) { p.links[2].avoided = true; }, "which is to be avoided");
  }
}

TEST_CASE("restrictions: a node that relays nothing may still be a leaf or the root") {
  for (const SessionKind kind : {SessionKind::kMulticast, SessionKind::kReduce}) {
    HandMade made = two_ways(kind);
    use_direct(made);
    for (PlanNode& node : made.plan().nodes) node.relays = false;
    const Plan plan = finish(made, 3);
    CHECK(all_violations(plan) == "");
    check_tampered(
        plan, [](Plan& p) { p.nodes[1].relays = true; }, "its duals prove 8 Mbit/s");
    HandMade relayed = two_ways(kind);
    use_relay(relayed);
    relayed.plan().nodes[1].relays = false;
    CHECK(all_violations(relayed.finish()).find("it relays over r, which relays nothing") !=
          std::string::npos);
  }
}

TEST_CASE("restrictions: bounds on latency hold for streams and count in bounds") {
  for (const SessionKind kind : {SessionKind::kMulticast, SessionKind::kReduce}) {
    HandMade made = two_ways(kind);
    use_relay(made);
    made.plan().sessions[0].max_latency = {Duration::max(), milliseconds(30)};
    const Plan plan = finish(made, 5);
    CHECK(all_violations(plan) == "");
    check_tampered(
        plan, [](Plan& p) { p.sessions[0].max_latency[1] = milliseconds(50); }, "its duals prove 8 Mbit/s");
    check_tampered(
        plan, [](Plan& p) { p.sessions[0].max_latency[1] = Duration::max(); }, "its duals prove 8 Mbit/s");
    check_tampered(
        plan, [](Plan& p) { p.sessions[0].max_latency[1] = milliseconds(29); },
        "it takes 30 ms between root and x, at most 29 ms are allowed");
    check_tampered(
        plan, [](Plan& p) { p.sessions[0].max_latency.pop_back(); }, "has 1 bounds on latency for 2 members");
  }
}

}  // namespace
}  // namespace square
