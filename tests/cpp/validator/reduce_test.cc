// Plans that add on the way: reduce, reduce-scatter, planned all-reduce.
#include <doctest/doctest.h>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;

std::pair<NodeId, NodeId> ends(std::uint32_t from, std::uint32_t to) { return {NodeId(from), NodeId(to)}; }

// Nodes r, u, v, w = 0, 1, 2, 3; the stream is v -> u, w -> u, u -> r.
void check_stream(std::vector<std::pair<NodeId, NodeId>> links, std::string_view expected) {
  check_tampered(
      reduce_over_a_relay().plan(), [&](Plan& p) { p.sessions[0].streams[0].links = links; }, expected);
}

TEST_CASE("reduce, tampering: the order of additions") {
  check_stream({ends(2, 1), ends(1, 0), ends(3, 1)}, "w -> u comes after u has sent its sum");
  check_stream({ends(1, 0), ends(2, 1), ends(3, 1)}, "u has nothing to send");
}
TEST_CASE("reduce, tampering: who is in it") {
  check_stream({ends(2, 1), ends(1, 0)}, "it leaves out what member w has");
  check_stream({ends(2, 1), ends(3, 1)}, "the sum ends at u, not at the root");
}
TEST_CASE("reduce, tampering: a tree towards the root") {
  check_stream({ends(2, 1), ends(3, 1), ends(1, 0), ends(1, 2)}, "u sends twice");
  check_stream({ends(2, 1), ends(3, 1), ends(1, 0), ends(0, 1)}, "the root of a reduce sends");
  check_stream({ends(1, 2), ends(2, 1), ends(3, 1), ends(1, 0)}, "u sends twice");
  check_stream({ends(2, 1), ends(3, 1), ends(3, 0)}, "there is no link w -> r");
}
TEST_CASE("reduce, tampering: capacity and price of its links") {
  check_tampered(
      reduce_over_a_relay().plan(), [](Plan& p) { p.links[2].capacity_bps = 4e6; },
      "link u -> r: streams put 5 Mbit/s on a capacity of 4 Mbit/s");
  check_tampered(
      reduce_over_a_relay().plan(), [](Plan& p) { p.links[0].price_usd_per_gb = 0; }, "its cost is given as");
  check_tampered(
      reduce_over_a_relay().plan(), [](Plan& p) { p.links[0].price_usd_per_gb = -1; },
      "its price is not a finite amount");
}
TEST_CASE("reduce: paths lead from the root to each member, against the data") {
  HandMade made = reduce_over_a_relay();
  made.add_path({"r", "u", "v"}, 5);
  made.add_path({"r", "u", "w"}, 5);
  CHECK(all_violations(made.plan()) == "");
  // Both members share the last link; one link alone would not carry 6.
  check_tampered(
      made.plan(), [](Plan& p) { p.sessions[0].paths[0].rate_bps = 6e6; },
      "link u -> r: conceptual flows put 6 Mbit/s on a capacity of 5 Mbit/s");
  check_tampered(
      made.plan(),
      [](Plan& p) { std::reverse(p.sessions[0].paths[0].nodes.begin(), p.sessions[0].paths[0].nodes.end()); },
      "does not lead there from the root");
}
TEST_CASE("paths may be left out only where the streams carry all") {
  check_tampered(
      coded_butterfly().plan(), [](Plan& p) { p.sessions[0].paths.clear(); },
      "its lp_rate is 2 Mbit/s, its streams carry 1.5 Mbit/s, and there are no paths");
}
TEST_CASE("lp_rate of a collective") {
  check_tampered(
      coded_butterfly().plan(), [](Plan& p) { p.collectives[0].lp_rate_bps = 2.1e6; },
      "its lp_rate is given as 2.1 Mbit/s, those of its sessions allow 2 Mbit/s");
  // A plan with levels may give one more by trees than by the program, because it gives another less.
  check_tampered(
      coded_butterfly().plan(),
      [](Plan& p) {
        p.certificate.levels.clear();
        p.collectives[0].lp_rate_bps = 1.4e6;
      },
      "its rate, 1.5 Mbit/s, is over its lp_rate 1.4 Mbit/s");
}
TEST_CASE("reduce, tampering: byte ranges") {
  const Plan plan = reduce_over_a_relay().plan();
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].offset_bytes = 1; }, "not every byte is added once");
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].size_bytes = UINT64_MAX; }, "not every byte is added once");
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].kind = SessionKind::kMulticast; }, "a session does not add");
  check_tampered(
      plan, [](Plan& p) { p.collectives[0].op = CollectiveOp::kBroadcast; },
      "a session adds, where bytes are only moved");
}

// Each member of a mesh of two gets its half, added up.
HandMade reduce_scatter() {
  HandMade made({"a", "b"});
  made.add_link("a", "b", 10);
  made.add_link("b", "a", 10);
  made.add_collective(CollectiveOp::kReduceScatter, 1001);
  made.add_session(SessionKind::kReduce, {"a", "b"}, 0, 500);
  made.add_stream({{"b", "a"}}, 10);
  made.add_session(SessionKind::kReduce, {"b", "a"}, 500, 501);
  made.add_stream({{"a", "b"}}, 10);
  made.finish();
  return made;
}

TEST_CASE("reduce-scatter: a slot for each member") {
  const Plan plan = reduce_scatter().plan();
  CHECK(all_violations(plan) == "");
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(10e6 * 1001 / 501));
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].size_bytes = 501; }, "the ranges are not a slot for each member");
  check_tampered(
      plan,
      [](Plan& p) {
        p.sessions[1].root = NodeId(0);
        p.sessions[1].streams[0].links = {ends(1, 0)};
      },
      "not every member is the root of one slot");
  check_tampered(
      plan,
      [](Plan& p) {
        p.collectives[0].sessions.pop_back();
        p.sessions.pop_back();
      },
      "not every member is the root of one slot");
}

TEST_CASE("planned all-reduce: bytes need not divide") {
  for (const std::uint64_t bytes : {3'000'000, 3'000'001, 3'000'002, 7, 3, 2, 1}) {
    CAPTURE(bytes);
    CHECK(all_violations(planned_all_reduce(bytes).plan()) == "");
  }
}

TEST_CASE("planned all-reduce, tampering: shares") {
  const Plan plan = planned_all_reduce().plan();
  check_tampered(
      plan, [](Plan& p) { p.sessions[0].offset_bytes = 1; }, "the halves of a share differ in root or bytes");
  check_tampered(
      plan,
      [](Plan& p) {
        for (const std::size_t i : {0, 1}) p.sessions[i].size_bytes -= 5;
      },
      "not every byte is in one share");
  check_tampered(
      plan,
      [](Plan& p) {
        for (const std::size_t i : {2, 3}) p.sessions[i].offset_bytes = 0;
      },
      "not every byte is in one share");
  check_tampered(
      plan, [](Plan& p) { p.sessions[1].pair = SessionId(2); }, "a session is not half of a share");
  check_tampered(
      plan, [](Plan& p) { p.sessions[1].pair.reset(); }, "a session is not half of a share");
  check_tampered(
      plan, [](Plan& p) { p.sessions[1].kind = SessionKind::kReduce; },
      "a share is not a reduce and a multicast");
  check_tampered(
      plan, [](Plan& p) { p.sessions[2].members.pop_back(); }, "a share leaves out a member");
  check_tampered(
      plan, [](Plan& p) { p.sessions[1].pair = SessionId(99); }, "is paired with session 99");
}

TEST_CASE("planned all-reduce, tampering: bytes in proportion to rates") {
  const Plan plan = planned_all_reduce().plan();
  const auto move_bytes = [](Plan& p, std::uint64_t bytes) {
    for (const std::size_t i : {0, 1}) p.sessions[i].size_bytes += bytes;
    for (const std::size_t i : {2, 3}) {
      p.sessions[i].offset_bytes += bytes;
      p.sessions[i].size_bytes -= bytes;
    }
  };
  Plan rounded = plan;
  move_bytes(rounded, 1);  // whole bytes
  CHECK(all_violations(rounded) == "");
  check_tampered(
      plan, [&](Plan& p) { move_bytes(p, 100); },
      "the share of a has 1000100 bytes, its part of the rate is worth 1000000");
  check_tampered(
      plan, [](Plan& p) { p.collectives[0].rate_bps *= 1.01; }, "its sessions allow 15 Mbit/s");
}

TEST_CASE("planned all-reduce: a share goes as fast as its slower half, and may have none") {
  HandMade made = planned_all_reduce();
  Plan& plan = made.plan();
  // The third share is left out of the streams, and its bytes go to the others.
  plan.certificate = {};
  for (const std::size_t i : {4, 5}) {
    plan.sessions[i].streams.clear();
    plan.sessions[i].lp_rate_bps = 0;
    plan.sessions[i].offset_bytes = 3'000'000;
    plan.sessions[i].size_bytes = 0;
  }
  plan.sessions[1].streams[0].rate_bps = 4e6;
  const double part = 4.0 / 9.0 * 3e6;
  for (const std::size_t i : {0, 1}) plan.sessions[i].size_bytes = static_cast<std::uint64_t>(part);
  for (const std::size_t i : {2, 3}) {
    plan.sessions[i].offset_bytes = static_cast<std::uint64_t>(part);
    plan.sessions[i].size_bytes = 3'000'000 - static_cast<std::uint64_t>(part);
  }
  for (PlanLink& link : plan.links) link.load_bps = 0;
  for (PlanSession& session : plan.sessions) session.lp_rate_bps = 0;
  plan.total_rate_bps = 0;
  made.finish();
  CHECK(plan.collectives[0].rate_bps == doctest::Approx(9e6));
  CHECK(all_violations(plan) == "");
  // Bytes without a rate would never arrive.
  check_tampered(
      plan,
      [](Plan& p) {
        for (const std::size_t i : {2, 3}) p.sessions[i].size_bytes -= 1;
        for (const std::size_t i : {4, 5}) {
          p.sessions[i].offset_bytes -= 1;
          p.sessions[i].size_bytes = 1;
        }
      },
      "the share of c has 1 bytes");
}

TEST_CASE("changes and headroom") {
  Plan plan = triangle().plan();
  using Kind = PlanChange::Kind;
  plan.changes = {{CollectiveId(0), Kind::kFaster, 10e6, 20e6}, {CollectiveId(7), Kind::kLeft, 3e6, 0}};
  plan.headroom = PlanHeadroom{2.0, 25e6, 25e6};
  CHECK(all_violations(plan) == "");
  check_tampered(
      plan, [](Plan& p) { (*p.changes)[0].kind = Kind::kSlower; },
      "it is not slower by going from 10 Mbit/s");
  check_tampered(
      plan, [](Plan& p) { (*p.changes)[0].kind = Kind::kJoined; }, "it is not joined by going from");
  check_tampered(
      plan, [](Plan& p) { (*p.changes)[0].rate_after_bps = 30e6; }, "after the change is given as 30 Mbit/s");
  check_tampered(
      plan, [](Plan& p) { (*p.changes)[1].kind = Kind::kRerouted; }, "rerouted, but it is not in the plan");
  check_tampered(
      plan, [](Plan& p) { (*p.changes)[0].collective = CollectiveId(7); }, "collective 7 changed twice");
  check_tampered(
      plan, [](Plan& p) { p.headroom->deviations = -1; }, "the headroom has a figure of -1");
}

}  // namespace
}  // namespace square
