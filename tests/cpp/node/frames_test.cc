// What a node does with frames, and with failures: the parts put together by hand.
#include <doctest/doctest.h>

#include "node/frames/frame_handler.h"
#include "node/messages/answers.h"
#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

constexpr LinkHandle kFrom{50};
constexpr LinkHandle kTo{1};

// n1 of n0 -> n1 -> n2, where operations are hosted by the test.
struct Node : Alone, OperationHost, LivePlans::Host, Neighbours::Host {
  Node() : Alone("n1") {
    plans.install(line_plan(), [](Epoch) {});
    plans.activate(Epoch(1));
    neighbours.set_address("n2", "there");
    neighbours.on_link_up(kFrom, LinkEnd::kHead, "n0");
    neighbours.on_link_up(kTo, LinkEnd::kTail, "n2");
    run();
    transport.sent.clear();
  }
  Frame block(std::uint64_t sequence) const {
    Frame frame = frame_on(key, FrameType::kBlock, 1'000);
    frame.header.hop_sequence = sequence;
    frame.header.stream_sequence = sequence;
    frame.header.total_bytes = 1'000;
    frame.header.block_bytes = kMinBlockBytes;
    return frame;
  }
  void take(LinkHandle link, Frame frame) {
    frames.take(link, std::move(frame), {});
    run();
  }
  [[nodiscard]] std::vector<FrameType> sent(LinkHandle link) {
    std::vector<FrameType> types;
    for (const Frame& frame : transport.sent[link]) types.push_back(frame.header.type);
    return types;
  }

  Neighbours::OutgoingLinks& links() override { return neighbours.outgoing(); }
  std::shared_ptr<const InstalledCollective> collective_of(CollectiveId id, Epoch since) override {
    return plans.find(id, since);
  }
  std::shared_ptr<const InstalledCollective> active(CollectiveId id) override { return plans.active(id); }
  void answer(const LocalStream& stream, Frame frame) override { frames.answer(stream, frame); }
  void fill_stream(const StreamKey&) override {}
  [[nodiscard]] Sealing sealing(CollectiveId, const std::string&) const override { return {}; }
  [[nodiscard]] std::string lost_links(CollectiveId) const override { return {}; }
  void on_restart(const OperationKey&, SessionId) override {}
  void announce_failure(const OperationKey& failed, const Status& cause, GroupCall) override {
    failures.announce(failed, cause);
  }
  void on_finished(const OperationKey& over, const Status&) override { operations.remove(over); }
  void open(const LivePlans::CollectivePointer& collective) override { neighbours.open(collective); }
  void close(const LivePlans::CollectivePointer& collective) override { neighbours.close(*collective); }
  void open_plan(const LivePlans::PlanPointer& plan) override { neighbours.install(*plan); }
  void move_up(const LivePlans::PlanPointer&, bool) override {}
  void follow(const LivePlans::PlanPointer&) override {}
  [[nodiscard]] bool runs_before(const InstalledPlan&) const override { return false; }
  void fill_sources(const StreamKey&) override {}
  void on_neighbour_up(const std::string&) override {}
  void on_link_back(LinkEnd /*end*/, const std::string& /*peer*/) override {}
  void on_neighbour_gone(const std::string& peer) override { failures.on_neighbour_gone(peer); }
  void on_neighbour_replaced(const std::string& peer) override { failures.on_neighbour_replaced(peer); }

  const StreamKey key{Epoch(1), SessionId(0), StreamIndex(0)};
  Neighbours neighbours{node, *this};
  LivePlans plans{*node, *this};
  Groups groups;
  Watches watches{simulation.clock(), *executor};
  RelayedSums sums{node, neighbours.outgoing(), {}};
  WaitingCalls waiting{"n1", simulation.clock(), *executor, {}};
  OpenOperations operations{node, *this, groups, watches, waiting};
  Failures failures{{*node, groups, watches, operations, sums, plans, neighbours}};
  Agreement agreement{"n1", groups, operations, failures};
  FrameHandler frames{{*node, neighbours, groups, operations, sums, failures, agreement}};
};

}  // namespace

TEST_CASE("a block goes on to the children, opens its operation, and tells who watches for it") {
  Node test;
  bool is_heard = false;
  test.watches.add({CollectiveId(0), OperationId(0)}, Duration::max(),
                   [&](const Status& outcome) { is_heard = outcome.is_ok(); });
  test.take(kFrom, test.block(1));
  CHECK(is_heard);
  CHECK(test.operations.find({CollectiveId(0), OperationId(0)}) != nullptr);
  CHECK(test.sent(kTo).empty());  // no credit yet
  Frame credit = frame_on(test.key, FrameType::kCredit);
  credit.header.hop_sequence = 4;
  test.take(kTo, std::move(credit));
  CHECK(test.sent(kTo) == std::vector<FrameType>{FrameType::kBlock});
  CHECK(test.node->statistics.blocks_received == 1);
  CHECK(test.node->statistics.frames_refused == 0);
}

TEST_CASE(
    "what does not belong to a link or a stream is refused, and a block beyond credit closes the link") {
  Node test;
  const auto refused = [&] { return test.node->statistics.frames_refused; };
  test.take(LinkHandle(99), test.block(1));
  CHECK(refused() == 1);
  test.take(kTo, test.block(1));  // from a child
  CHECK(refused() == 2);
  test.take(kFrom, frame_on(test.key, FrameType::kAck));  // from a parent
  CHECK(refused() == 3);
  test.take(kFrom, frame_on({Epoch(9), SessionId(0), StreamIndex(0)}, FrameType::kProbe));
  CHECK(refused() == 4);
  CHECK(test.transport.closed.empty());
  test.take(kFrom, test.block(10'000));
  CHECK(refused() == 5);
  CHECK(test.transport.closed == std::vector<LinkHandle>{kFrom});
  CHECK(test.operations.empty());
}

TEST_CASE("an abort ends the group here, goes on once, and is the answer from then on") {
  Node test;
  test.take(kFrom, test.block(1));
  Frame abort = frame_on(test.key, FrameType::kAbort);
  abort.payload = encode_abort(unavailable("cable"));
  test.take(kFrom, abort);
  test.take(kFrom, abort);
  CHECK(test.sent(kTo) == std::vector<FrameType>{FrameType::kAbort});
  CHECK(test.groups[CollectiveId(0)].failure->message() == "cable");
  test.take(kFrom, test.block(2));
  CHECK(test.sent(kFrom).back() == FrameType::kAbort);
}

TEST_CASE("a lost link ends nothing; a member that is gone does, and both sides hear of it") {
  Node test;
  test.groups.set_members(CollectiveId(0), "g", {Rank(1)});
  test.take(kFrom, test.block(1));
  test.neighbours.on_link_down(kTo, unavailable("cable"));
  test.run(kMinRedialWait);
  const auto aborts = [&] {
    const auto said = test.sent(kFrom);
    return std::ranges::count(said, FrameType::kAbort);
  };
  CHECK(aborts() == 0);
  CHECK_FALSE(test.groups[CollectiveId(0)].failure);
  test.neighbours.on_link_down(LinkHandle(2), not_found("nobody listens"));
  test.run(2 * kMinRedialWait);
  CHECK(aborts() == 0);
  test.neighbours.on_link_down(LinkHandle(3), not_found("nobody listens"));
  test.run(kLongestRefusal);
  const auto told = aborts();
  CHECK(told >= 1);
  CHECK(test.groups[CollectiveId(0)].failure->message() ==
        "node \"n2\" is gone: its host has refused connections at there for 3 s");
  test.take(kFrom, test.block(2));  // of who has not heard yet
  CHECK(aborts() == told + 1);
}
