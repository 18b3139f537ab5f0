// Connections to neighbours, their links, and those that are lost.
#include "node/links/neighbours.h"

#include <doctest/doctest.h>

#include "node/parts.h"
#include "square/metrics.h"

using namespace square;
using namespace square::test;

namespace {

struct Listening final : Neighbours::Host {
  void fill_sources(const StreamKey& key) override { rooms.push_back(key); }
  void on_neighbour_up(const std::string& peer) override { said.push_back(peer + " up"); }
  void on_neighbour_lost(LinkEnd end, const std::string& peer, const Status& reason) override {
    said.push_back(peer + (end == LinkEnd::kTail ? " tail " : " head ") + reason.message());
  }
  std::vector<StreamKey> rooms;
  std::vector<std::string> said;
};

// n1 of n0 -> n1 -> n2.
struct Middle : Alone {
  explicit Middle(bool paced = false) : Alone("n1", paced) { neighbours.open_plan(plan); }
  Listening host;
  Neighbours neighbours{node, host};
  std::shared_ptr<InstalledPlan> plan = install(line_plan());
  const StreamKey key = plan->streams().begin()->first;
};

constexpr LinkHandle kFrom{50};

}  // namespace

TEST_CASE("a link is dialled when its plan and its address are known, and again when it fails") {
  Middle test;
  CHECK(test.transport.dialled.empty());
  test.neighbours.set_address("n0", "here");  // only n0 opens that link
  CHECK(test.transport.dialled.empty());
  test.neighbours.set_address("n2", "there");
  CHECK(test.transport.dialled == std::vector<std::string>{"n2@there"});
  test.neighbours.on_link_down(LinkHandle(1), unavailable("refused"));
  test.run(kMinRedialWait);
  CHECK(test.transport.dialled.size() == 2);
  test.neighbours.on_link_down(LinkHandle(2), unavailable("refused"));
  test.run(kMinRedialWait);
  CHECK(test.transport.dialled.size() == 2);
  test.run(kMinRedialWait);
  CHECK(test.transport.dialled.size() == 3);
  CHECK(test.host.said.empty());  // it was never up
  CHECK(test.neighbours.lost().empty());
  test.node->is_stopping = true;
  test.neighbours.on_link_down(LinkHandle(3), unavailable("refused"));
  test.run(kMaxRedialWait);
  CHECK(test.transport.dialled.size() == 3);
}

TEST_CASE("a block's way on is known from its stream, and a link that comes again replaces the old one") {
  Middle test;
  test.neighbours.on_link_up(kFrom, LinkEnd::kHead, "n0");
  const Neighbours::Connection* connection = test.neighbours.find(kFrom);
  REQUIRE(connection != nullptr);
  REQUIRE(connection->incoming != nullptr);
  const IncomingStream* stream = connection->incoming->find(test.key);
  REQUIRE(stream != nullptr);
  CHECK(stream->parent() == 0);
  REQUIRE(stream->children().size() == 1);
  CHECK(stream->children().front() == test.neighbours.outgoing().at("n2")->find(test.key));
  test.neighbours.on_link_up(LinkHandle(51), LinkEnd::kHead, "n0");
  CHECK(test.transport.closed == std::vector<LinkHandle>{kFrom});
  test.neighbours.on_link_down(kFrom, cancelled("closed"));
  CHECK(test.host.said == std::vector<std::string>{"n0 up", "n0 up"});
  test.neighbours.on_link_down(LinkHandle(51), unavailable("died"));
  CHECK(test.host.said.back() == "n0 head died");
  CHECK(test.neighbours.find(kFrom) == nullptr);
  test.neighbours.close_plan(*test.plan);
  CHECK(test.neighbours.outgoing().at("n2")->find(test.key) == nullptr);
}

TEST_CASE("answers wait for the link that they go back on, and stopping for both") {
  Middle test;
  test.neighbours.answer("n0", frame_on(test.key, FrameType::kAck));  // not up
  test.neighbours.answer("nobody", frame_on(test.key, FrameType::kAck));
  test.neighbours.on_link_up(kFrom, LinkEnd::kHead, "n0");
  test.run();
  REQUIRE(test.transport.sent[kFrom].size() == 1);
  CHECK(test.transport.sent[kFrom].front().header.type == FrameType::kCredit);
  test.neighbours.on_sent(kFrom);
  CHECK(test.neighbours.is_idle());
  test.neighbours.answer("n0", frame_on(test.key, FrameType::kAck));
  CHECK_FALSE(test.neighbours.is_idle());
  test.run();
  CHECK_FALSE(test.neighbours.is_idle());
  test.neighbours.on_sent(kFrom);
  CHECK(test.neighbours.is_idle());
}

TEST_CASE("an unlimited link takes as many channels as its round trip asks for") {
  Middle test;
  test.neighbours.set_address("n2", "there");
  test.neighbours.on_link_up(LinkHandle(1), LinkEnd::kTail, "n2");
  test.neighbours.on_round_trip(LinkHandle(1), std::chrono::microseconds(100));
  CHECK(test.transport.channels_of.empty());
  test.neighbours.on_round_trip(LinkHandle(1), std::chrono::milliseconds(10));
  CHECK(test.transport.channels_of.at(LinkHandle(1)) == 3);
  test.node->traffic.follow("n1", {&test.plan->plan()}, &test.plan->plan());
  NodeMetrics metrics = test.node->traffic.snapshot();
  test.neighbours.describe(metrics);
  REQUIRE(metrics.links.size() == 2);
  const auto& out = metrics.links[metrics.links[0].direction == LinkDirection::kOut ? 0 : 1];
  CHECK(out.is_up);
  CHECK(out.channels == 3);
}

TEST_CASE("an operation waits for a lost member for a while, and longer for a lost relay") {
  const Alone alone("n1");
  const auto plan = alone.install(line_plan());
  LostLinks lost("n1");
  lost.note(LinkEnd::kTail, "n2", "cable");
  const TimePoint since{std::chrono::seconds(100)};
  const LostLinks::Question question{*plan, CollectiveId(0), since};
  std::optional<TimePoint> next;
  CHECK(lost.check(question, since, next).is_ok());
  CHECK(next == since + kMemberReturnTime);
  next.reset();
  const Status late = lost.check(question, since + kMemberReturnTime, next);
  CHECK(late.message() == "link \"n1\" -> \"n2\" went down and did not come back in 2 s: cable");
  lost.forget(LinkEnd::kTail, "n2");
  lost.note(LinkEnd::kTail, "n0", "the other way");
  CHECK(lost.check(question, since + kRelayReturnTime, next).is_ok());
  CHECK_FALSE(next);
}
