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
  void on_link_back(LinkEnd /*end*/, const std::string& /*peer*/) override { ++backs; }
  int backs = 0;
  void on_neighbour_gone(const std::string& peer) override { said.push_back(peer + " gone"); }
  void on_neighbour_replaced(const std::string& peer) override { said.push_back(peer + " replaced"); }
  std::vector<StreamKey> rooms;
  std::vector<std::string> said;
};

// n1 of n0 -> n1 -> n2.
struct Middle : Alone {
  explicit Middle(bool paced = false) : Alone("n1", paced) {
    neighbours.open(plan);
    neighbours.install(*whole);
  }
  Listening host;
  Neighbours neighbours{node, host};
  std::shared_ptr<InstalledPlan> whole = install(line_plan());
  std::shared_ptr<const InstalledCollective> plan = whole->find(CollectiveId(0));
  const StreamKey key = plan->streams().front().key;
};

constexpr LinkHandle kOtherLine{50};

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
  // It was never up.
  CHECK(test.neighbours.lost().describe(*test.plan, test.node->clock.now()).empty());
  test.node->is_stopping = true;
  test.neighbours.on_link_down(LinkHandle(3), unavailable("refused"));
  test.run(kMaxRedialWait);
  CHECK(test.transport.dialled.size() == 3);
}

TEST_CASE("a block's way on is known from its stream, and a link that comes again replaces the old one") {
  Middle test;
  test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n0");
  const Neighbours::Connection* connection = test.neighbours.find(kOtherLine);
  REQUIRE(connection != nullptr);
  REQUIRE(connection->incoming != nullptr);
  const IncomingStream* stream = connection->incoming->find(test.key);
  REQUIRE(stream != nullptr);
  CHECK(stream->parent() == 0);
  REQUIRE(stream->children().size() == 1);
  CHECK(stream->children().front() == test.neighbours.outgoing().at("n2")->find(test.key));
  test.neighbours.on_link_up(LinkHandle(51), LinkEnd::kHead, "n0");
  CHECK(test.transport.closed == std::vector<LinkHandle>{kOtherLine});
  test.neighbours.on_link_down(kOtherLine, cancelled("closed"));
  CHECK(test.host.said == std::vector<std::string>{"n0 up", "n0 up"});
  test.neighbours.on_link_down(LinkHandle(51), unavailable("died"));
  CHECK(test.neighbours.lost().describe(*test.plan, test.node->clock.now()) ==
        "; link \"n0\" -> \"n1\" has been down for 0.0 s: died");
  CHECK(test.neighbours.find(kOtherLine) == nullptr);
  test.neighbours.close(*test.plan);
  CHECK(test.neighbours.outgoing().at("n2")->find(test.key) == nullptr);
}

TEST_CASE("answers wait for the link that they go back on, and stopping for both") {
  Middle test;
  test.neighbours.answer("n0", frame_on(test.key, FrameType::kAck));  // not up
  test.neighbours.answer("nobody", frame_on(test.key, FrameType::kAck));
  test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n0");
  test.run();
  REQUIRE(test.transport.sent[kOtherLine].size() == 1);
  CHECK(test.transport.sent[kOtherLine].front().header.type == FrameType::kCredit);
  test.neighbours.on_sent(kOtherLine);
  CHECK(test.neighbours.is_idle());
  test.neighbours.answer("n0", frame_on(test.key, FrameType::kAck));
  CHECK_FALSE(test.neighbours.is_idle());
  test.run();
  CHECK_FALSE(test.neighbours.is_idle());
  test.neighbours.on_sent(kOtherLine);
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
  test.node->traffic.add_links(test.whole->plan());
  test.node->traffic.follow(test.whole->shared_plan());
  NodeMetrics metrics = test.node->traffic.snapshot();
  test.neighbours.describe(metrics);
  REQUIRE(metrics.links.size() == 2);
  const auto& out = metrics.links[metrics.links[0].direction == LinkDirection::kOut ? 0 : 1];
  CHECK(out.is_up);
  CHECK(out.channels == 3);
}

TEST_CASE("a link that a plan goes around keeps its pace") {
  Alone test("n1", true);
  Listening host;
  Neighbours neighbours(test.node, host);
  const auto open = [&](Epoch epoch, bool has_link) {
    PlanBuilder builder(3, epoch);
    builder.add_link(0, 1, 8e6);
    if (has_link) builder.add_link(1, 2, 8e6);
    builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 8e6}});
    if (has_link) builder.add_broadcast(1, {1, 2}, {{{{1, 2}}, 8e6}});
    const auto installed = test.install(builder.build());
    installed->each_not_in(nullptr, [&](const auto& collective) { neighbours.open(collective); });
    neighbours.install(*installed);
  };
  open(Epoch(1), true);
  CHECK(neighbours.outgoing().at("n2")->pace_bps() == 8e6);
  open(Epoch(2), false);
  CHECK(neighbours.outgoing().at("n2")->pace_bps() == 8e6);
}

TEST_CASE("a link that no plan uses any more keeps its channels") {
  Middle test;
  test.neighbours.set_address("n2", "there");
  test.neighbours.on_link_up(LinkHandle(1), LinkEnd::kTail, "n2");
  test.neighbours.close(*test.plan);
  test.neighbours.on_round_trip(LinkHandle(1), std::chrono::seconds(1));
  CHECK(test.transport.channels_of.empty());
}

TEST_CASE(
    "a neighbour whose host refuses for long is gone where no controller can ask, and no link of it is up") {
  Middle test;
  const auto absent = not_found("nobody listens");
  test.neighbours.set_address("n2", "there");
  test.neighbours.on_link_down(LinkHandle(1), absent);
  test.run(kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(2), absent);
  test.run(kLongestRefusal - 2 * kMinRedialWait);
  CHECK(test.host.said.empty());
  test.run(kMinRedialWait);
  CHECK(test.host.said == std::vector<std::string>{"n2 gone"});
  const Status why = test.node->departures.check(*test.plan, OperationId(0));
  CHECK(why.message() == "node \"n2\" is gone: its host has refused connections at there for 3 s");
  test.run(2 * kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(3), absent);
  CHECK(test.host.said.size() == 1);  // said once
  test.neighbours.set_address("n2", "elsewhere");
  CHECK(test.node->departures.check(*test.plan, OperationId(0)).is_ok());
}

TEST_CASE("who was silent when the link to it was lost is not heard before it says something") {
  Middle test;
  const auto heard = [&] { return test.node->heard.list().size() == 1; };
  test.neighbours.set_address("n2", "there");
  const auto fall_silent = [&](LinkHandle link) {
    test.neighbours.on_link_up(link, LinkEnd::kTail, "n2");
    CHECK(heard());
    test.neighbours.on_suspicion(link, true);
    CHECK_FALSE(heard());
    test.neighbours.on_link_down(link, unavailable("no answer"));
    CHECK_FALSE(heard());  // though its own link is up, on which nothing comes
  };
  test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n2");
  fall_silent(LinkHandle(1));
  test.neighbours.note_heard("n2");
  CHECK(heard());
  fall_silent(LinkHandle(2));
  fall_silent(LinkHandle(3));
}

TEST_CASE("who is suspected and said to be gone is believed to be, in either order") {
  for (const bool is_said_first : {false, true}) {
    Middle test;
    test.neighbours.set_address("n2", "there");
    test.neighbours.on_link_up(LinkHandle(1), LinkEnd::kTail, "n2");
    test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n2");
    if (is_said_first) test.neighbours.set_gone("n2", "nobody has heard of it");
    CHECK(test.transport.closed.empty());
    test.neighbours.on_suspicion(LinkHandle(1), true);
    if (!is_said_first) test.neighbours.set_gone("n2", "nobody has heard of it");
    CHECK(test.transport.closed == std::vector<LinkHandle>{LinkHandle(1), kOtherLine});
    test.neighbours.on_link_down(LinkHandle(1), cancelled("closed"));
    test.neighbours.on_link_down(kOtherLine, cancelled("closed"));
    CHECK(test.host.said.back() == "n2 gone");
  }
}

TEST_CASE("a process that is another than the one before says that this is gone") {
  Middle test;
  test.neighbours.set_address("n2", "there", 1);
  test.neighbours.on_link_up(LinkHandle(1), LinkEnd::kTail, "n2");
  test.neighbours.set_address("n2", "there", 1);
  test.neighbours.set_address("n2", "there");  // nobody knows
  CHECK(test.host.said == std::vector<std::string>{"n2 up"});
  // Back at its address before this node saw that it was not there.
  test.neighbours.set_address("n2", "there", 2);
  CHECK(test.host.said == std::vector<std::string>{"n2 up", "n2 gone", "n2 replaced"});
  CHECK_FALSE(test.node->departures.is_gone("n2"));  // another is there
  test.neighbours.set_address("n2", "there", 2);
  CHECK(test.host.said.size() == 3);
}

TEST_CASE("a neighbour whose address nobody tells is reported, until it is told") {
  Middle test;
  std::vector<std::vector<std::string>> reports;
  test.neighbours.broken().set_report(
      [&](const LinkTroubles& troubles) { reports.push_back(troubles.broken); }, nullptr);
  test.run(kFirstGrace - kMinRedialWait);
  CHECK(reports.empty());
  test.run(2 * kMinRedialWait);
  CHECK(reports == std::vector<std::vector<std::string>>{{"n2"}});
  test.neighbours.set_address("n2", "there");
  CHECK(reports.back().empty());
  CHECK(test.transport.dialled.size() == 1);
}

TEST_CASE("one that does not answer, or answers between, is not gone") {
  Middle test;
  test.neighbours.set_address("n2", "there");
  test.neighbours.on_link_down(LinkHandle(1), not_found("nobody listens"));
  test.run(kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(2), unavailable("no answer"));
  test.run(2 * kMinRedialWait);
  test.neighbours.on_link_up(LinkHandle(3), LinkEnd::kTail, "n2");
  test.neighbours.on_link_down(LinkHandle(3), unavailable("lost"));
  test.run(kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(4), not_found("nobody listens"));
  CHECK(test.host.said == std::vector<std::string>{"n2 up"});
  test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n2");
  test.run(2 * kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(5), not_found("nobody listens"));
  CHECK(test.host.said == std::vector<std::string>{"n2 up", "n2 up"});
  CHECK(test.host.backs == 0);
  test.neighbours.on_link_up(LinkHandle(6), LinkEnd::kTail, "n2");
  CHECK(test.host.backs == 1);  // that link was up once
}

TEST_CASE("who only sends to this node is dialled when its link is lost and it does not come back") {
  Middle test;
  test.neighbours.set_address("n0", "here");
  test.neighbours.on_link_up(kOtherLine, LinkEnd::kHead, "n0");
  test.neighbours.on_link_down(kOtherLine, unavailable("died"));
  CHECK(test.transport.dialled.empty());
  test.run(kComeBackTime);
  CHECK(test.transport.dialled == std::vector<std::string>{"n0@here"});
  test.neighbours.on_link_down(LinkHandle(1), not_found("nobody listens"));
  test.run(kMinRedialWait);
  test.neighbours.on_link_down(LinkHandle(2), not_found("nobody listens"));
  test.run(kLongestRefusal);
  CHECK(test.host.said.back() == "n0 gone");
  const std::size_t dialled = test.transport.dialled.size();
  test.run(2 * kMaxRedialWait);
  CHECK(test.transport.dialled.size() == dialled);  // no plan sends to it
}
