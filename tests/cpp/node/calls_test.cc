// Members that call different operations, with buffers that differ too: they hear what each called, in
// whatever order calls and frames come.
#include <doctest/doctest.h>

#include "node/sums.h"

using namespace square;
using namespace square::test;

namespace {

// 1 and 2 send to 3, which relays to 0; 3 may be a member.
std::shared_ptr<const Plan> told_star(bool relay_is_member) {
  PlanBuilder builder(4);
  for (const std::uint32_t from : {1U, 2U}) builder.add_link(from, 3, 80e6);
  builder.add_link(3, 0, 80e6);
  const std::vector<std::uint32_t> members =
      relay_is_member ? std::vector<std::uint32_t>{0, 1, 2, 3} : std::vector<std::uint32_t>{0, 1, 2};
  builder.add_reduce(0, members, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}});
  return builder.build();
}

// Ranks are called in this order, a moment apart, each `bytes[rank]` of what `kinds[rank]` says.
void check_told(bool relay_is_member, const std::vector<std::uint32_t>& nodes,
                const std::vector<std::uint32_t>& order, const std::vector<CallKind>& kinds) {
  CAPTURE(relay_is_member);
  CAPTURE(order);
  Overlay overlay(1, 4);
  REQUIRE(overlay.publish(told_star(relay_is_member)));
  overlay.set_members(CollectiveId(0), nodes);
  std::vector<std::vector<float>> inputs;
  for (const CallKind kind : kinds) inputs.emplace_back(kind == CallKind::kBarrier ? 0 : 10'000);
  Sum sum(CollectiveId(0), nodes, inputs, 0);
  for (const CallKind kind : kinds) sum.calls.push_back({kind, 4});
  sum.timeout = std::chrono::seconds(5);
  for (const std::uint32_t rank : order) {
    sum.post(overlay, rank);
    overlay.run([] { return false; }, std::chrono::milliseconds(300));
  }
  REQUIRE(overlay.run([&] { return sum.is_over(); }, std::chrono::seconds(6)));
  for (const auto& outcome : sum.outcomes) {
    CAPTURE(outcome->to_string());
    CHECK(outcome->message().find("all_reduce (call 5 of the group)") != std::string::npos);
    CHECK(outcome->message().find("barrier (call 5 of the group)") != std::string::npos);
  }
}

constexpr CallKind kSum = CallKind::kAllReduce;
constexpr CallKind kNothing = CallKind::kBarrier;

}  // namespace

TEST_CASE("calls are compared before buffers, whoever calls first") {
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {1, 0, 2}}) {
    // At a relay, and at the root, which has called or has not.
    check_told(false, {0, 1, 2}, order, {kSum, kSum, kNothing});
    check_told(false, {0, 1, 2}, order, {kSum, kNothing, kNothing});
    check_told(false, {0, 1, 2}, order, {kSum, kNothing, kSum});
  }
}

TEST_CASE("calls are compared before buffers where data passes a member") {
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2, 3}, {1, 2, 0, 3}, {2, 1, 3, 0}, {3, 1, 2, 0}}) {
    check_told(true, {0, 1, 2, 3}, order, {kSum, kSum, kNothing, kSum});
    check_told(true, {0, 1, 2, 3}, order, {kSum, kNothing, kNothing, kSum});
    check_told(true, {0, 1, 2, 3}, order, {kSum, kSum, kSum, kNothing});
  }
}

TEST_CASE("calls are compared before buffers where members share a node") {
  for (const std::vector<std::uint32_t>& order :
       {std::vector<std::uint32_t>{0, 1, 2, 3}, {1, 2, 3, 0}, {3, 2, 1, 0}}) {
    check_told(false, {0, 1, 2, 2}, order, {kSum, kSum, kSum, kNothing});
    check_told(false, {0, 1, 2, 2}, order, {kSum, kSum, kNothing, kSum});
  }
}
