// What a report of a sum says of its contributor reaches the root though blocks wait for credit.
#include "node/sums/report_ways.h"

#include <doctest/doctest.h>

#include "node/links/outgoing_link.h"
#include "node/parts.h"
#include "node/sum_plans.h"
#include "node/sums/sum_messages.h"

using namespace square;
using namespace square::test;

namespace {

constexpr LinkHandle kLink{7};

// 1 sends over the relay 3, and 2 straight, to 0: windows of a few blocks.
std::shared_ptr<const Plan> two_ways() {
  PlanBuilder builder = full_mesh(4, 1e6);
  builder.add_reduce(0, {0, 1, 2}, {{{{1, 3}, {3, 0}, {2, 0}}, 1e5}});
  return builder.build();
}

// The tail of n3 -> n0 on n3, whose stream has a block in line and no credit.
struct Held : Alone {
  Held() : Alone("n3") {
    plan = install_one(two_ways());
    stream = link.add_stream(plan, plan->streams().front());
    link.on_up(kLink);
    stream->enqueue(frame_on(stream->key(), FrameType::kBlock, 100), nullptr);
    run();
  }
  void pass_report(const SumReport& report) {
    Frame frame = frame_on(stream->key(), FrameType::kReport);
    frame.payload = encode_report(report);
    square::pass_report(link, stream->key(), std::move(frame));
    run();
  }
  [[nodiscard]] std::vector<SumReport> reports() {
    std::vector<SumReport> reports;
    for (const Frame& frame : transport.sent[kLink]) {
      if (frame.header.type == FrameType::kReport) reports.push_back(*decode_report(frame.payload));
    }
    return reports;
  }

  std::shared_ptr<const InstalledCollective> plan;
  Pacer egress{kUnlimited};
  Flush flush{*executor, [](const StreamKey&) {}};
  OutgoingLink link{*node, "n0", egress, flush};
  std::shared_ptr<OutgoingStream> stream;
};

}  // namespace

TEST_CASE("a report that waits behind blocks without credit has said ahead of them who has called") {
  Held held;
  const SumReport report{NodeId(1), 3, true, true, 5};
  const SumReport called{NodeId(1), 0, true, true, 0};
  held.pass_report(report);
  CHECK(held.reports() == std::vector{called});
  // What says no more than that needs no place in line.
  held.pass_report(called);
  CHECK(held.reports() == std::vector{called, called});
  held.link.on_credit(*held.stream, 10);
  held.run();
  REQUIRE(held.transport.sent[kLink].size() == 4);
  CHECK(held.transport.sent[kLink][2].header.type == FrameType::kBlock);
  CHECK(held.reports().back() == report);
  // With credit it goes once, in its place.
  held.pass_report(report);
  CHECK(held.reports().size() == 4);
}

TEST_CASE("reports that go ahead leave room for aborts") {
  Held held;
  for (std::size_t i = 0; i < kMaxUrgentFrames + 10; ++i)
    held.link.send_ahead(frame_on(held.stream->key(), FrameType::kReport));
  held.link.send_ahead(frame_on(held.stream->key(), FrameType::kAbort));
  for (std::size_t i = 0; i < kMaxUrgentFrames + 20; ++i) {
    held.run();
    held.link.on_sent();
  }
  CHECK(held.transport.sent[kLink].size() == kMaxUrgentFrames + 1);
  CHECK(held.transport.sent[kLink].back().header.type == FrameType::kAbort);
}

TEST_CASE("windows full of two sums' parts that wait for one another are freed") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  REQUIRE(overlay.publish(two_ways()));
  std::vector<std::unique_ptr<Sum>> sums;
  for (std::uint32_t i = 0; i < 2; ++i) {
    sums.push_back(std::make_unique<Sum>(CollectiveId(0), std::vector<std::uint32_t>{0, 1, 2},
                                         inputs_of(i, 3, 200'000), 0));
    sums.back()->operation = OperationId(i);
    sums.back()->post(overlay, 0);
  }
  // The second sum's parts of 1 fill the way over the relay, the first one's of 2 the other: nothing
  // that 1 has for the first can move, and no report behind it.
  sums[1]->post(overlay, 1);
  sums[0]->post(overlay, 2);
  pass(overlay, std::chrono::seconds(30));
  sums[0]->post(overlay, 1);
  sums[1]->post(overlay, 2);
  CHECK(overlay.run([&] { return sums[0]->is_over() && sums[1]->is_over(); }));
  for (const auto& sum : sums) CHECK(sum->is_right());
}
