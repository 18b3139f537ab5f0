// Both ends of a link, each alone.
#include <doctest/doctest.h>

#include "node/links/incoming_link.h"
#include "node/links/outgoing_link.h"
#include "node/parts.h"

using namespace square;
using namespace square::test;

namespace {

constexpr LinkHandle kIncoming{7};

// The tail of n0 -> n1 on n0.
struct Tail : Alone {
  Tail() : Alone("n0") {
    whole = install(line_plan());
    plan = whole->find(CollectiveId(0));
    node->traffic.add_links(whole->plan());
    node->traffic.add(*plan);
    stream = link.add_stream(plan, plan->streams().front());
  }
  [[nodiscard]] const std::vector<Frame>& sent() { return transport.sent[kIncoming]; }
  void put(std::uint64_t sequence) {
    Frame block = frame_on(stream->key(), FrameType::kBlock, 100);
    block.header.stream_sequence = sequence;
    stream->enqueue(std::move(block), nullptr);
  }

  std::shared_ptr<const InstalledPlan> whole;
  std::shared_ptr<const InstalledCollective> plan;
  Pacer egress{kUnlimited};
  std::vector<StreamKey> rooms;
  std::function<void()> source;
  Flush flush{*executor, [this](const StreamKey& key) {
                rooms.push_back(key);
                if (source) source();
              }};
  OutgoingLink link{*node, "n1", egress, flush};
  std::shared_ptr<OutgoingStream> stream;
};

std::shared_ptr<const Plan> crowd(std::uint32_t sessions) {
  PlanBuilder builder(2);
  builder.add_link(0, 1, kUnlimited);
  for (std::uint32_t i = 0; i < sessions; ++i) builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 1e4}});
  return builder.build();
}

// The head of n0 -> n1 on n1.
struct Head : Alone {
  explicit Head(const std::shared_ptr<const Plan>& planned) : Alone("n1") {
    plan = install(planned);
    for (const LocalStream* stream : plan->streams())
      link.add_stream(plan->find(stream->collective), *stream);
  }
  [[nodiscard]] std::vector<Frame>& sent() { return transport.sent[kIncoming]; }

  std::shared_ptr<InstalledPlan> plan;
  Flush flush{*executor, [](const StreamKey&) {}};
  IncomingLink link{node, "n0", flush};
};

}  // namespace

TEST_CASE(
    "what is put in line goes to the transport with the flush, as far as credit and the transport let it") {
  Tail tail;
  tail.link.on_up(kIncoming);
  for (std::uint64_t i = 1; i <= 12; ++i) tail.put(i);
  tail.run();
  CHECK(tail.sent().empty());
  tail.link.on_credit(*tail.stream, 10);
  CHECK(tail.sent().empty());
  tail.run();
  CHECK(tail.sent().size() == kMaxFramesInTransport);
  CHECK(tail.sent().back().header.hop_sequence == kMaxFramesInTransport);
  for (int i = 0; i < 4; ++i) tail.link.on_sent();
  CHECK(tail.sent().size() == kMaxFramesInTransport);
  tail.run();
  CHECK(tail.sent().size() == 10);
  CHECK(tail.stream->queued_blocks() == 2);
  CHECK_FALSE(tail.rooms.empty());
  CHECK(tail.node->statistics.blocks_sent == 10);
  CHECK(tail.node->traffic.session(SessionId(0))->counters.blocks_sent == 10);
}

TEST_CASE("a source fills the line in turn with the link, and is not called from where it fills") {
  Tail tail;
  std::uint64_t next = 0;
  bool is_filling = false;
  tail.source = [&] {
    REQUIRE_FALSE(is_filling);
    is_filling = true;
    while (next < 30 && tail.stream->has_room()) tail.put(++next);
    is_filling = false;
  };
  tail.link.on_up(kIncoming);
  tail.link.on_credit(*tail.stream, 100);
  for (int round = 0; round < 40; ++round) {
    tail.run();
    if (round < static_cast<int>(tail.sent().size())) tail.link.on_sent();
  }
  REQUIRE(tail.sent().size() == 30);
  for (std::size_t i = 0; i < 30; ++i) CHECK(tail.sent()[i].header.stream_sequence == i + 1);
}

TEST_CASE("a stream without credit asks for it, once at a time, and aborts go ahead") {
  Tail tail;
  tail.link.on_up(kIncoming);
  tail.put(1);
  tail.run(kMinCreditWait * 2);
  REQUIRE(tail.sent().size() == 1);
  CHECK(tail.sent().front().header.type == FrameType::kCreditRequest);
  tail.link.on_credit(*tail.stream, 1);
  tail.link.send_ahead(frame_on(tail.stream->key(), FrameType::kAbort));
  tail.run();
  REQUIRE(tail.sent().size() == 3);
  CHECK(tail.sent()[1].header.type == FrameType::kAbort);
  CHECK(tail.sent()[2].header.type == FrameType::kBlock);
}

TEST_CASE("a stream that was removed takes nothing, also from who kept it") {
  Tail tail;
  tail.link.on_up(kIncoming);
  tail.link.on_credit(*tail.stream, 100);
  const auto slot = std::make_shared<int>(0);
  tail.stream->enqueue(frame_on(tail.stream->key(), FrameType::kBlock), slot);
  tail.link.remove_stream(tail.stream->key());
  CHECK(slot.use_count() == 1);
  tail.put(2);
  tail.run();
  CHECK(tail.sent().empty());
  CHECK_FALSE(tail.stream->has_room());
  CHECK(tail.link.find(tail.stream->key()) == nullptr);
}

TEST_CASE("credit for more streams than a transport takes frames goes out as the transport has room") {
  constexpr std::size_t kStreams = 5'000;
  Head head(crowd(kStreams));
  head.link.on_up(kIncoming);
  std::size_t done = 0;
  std::map<SessionId, std::uint64_t> credit;
  while (done < kStreams) {
    head.run();
    const std::size_t waiting = head.sent().size() - done;
    REQUIRE(waiting <= kMaxAnswersInTransport);
    REQUIRE(waiting > 0);
    credit[head.sent()[done].header.session] = head.sent()[done].header.hop_sequence;
    ++done;
    head.link.on_sent();
  }
  CHECK(credit.size() == kStreams);
}

TEST_CASE("credit that waits for the transport is one frame, the newest") {
  Head head(line_plan());
  head.link.on_up(kIncoming);
  const StreamKey key = head.plan->streams().front()->key;
  IncomingStream& stream = *head.link.find(key);
  for (std::size_t i = 0; i < kMaxAnswersInTransport; ++i) head.link.answer(frame_on(key, FrameType::kAck));
  head.run();
  REQUIRE(head.sent().size() == kMaxAnswersInTransport);
  const std::uint64_t window = head.plan->streams().front()->window->blocks;
  const auto last_credit = [&] {
    const auto credit = std::find_if(head.sent().rbegin(), head.sent().rend(), [](const Frame& frame) {
      return frame.header.type == FrameType::kCredit;
    });
    return credit == head.sent().rend() ? std::uint64_t{0} : credit->header.hop_sequence;
  };
  CHECK(last_credit() == window);
  std::vector<std::shared_ptr<void>> slots;
  for (std::uint64_t block = 1; block <= window; ++block) slots.push_back(stream.take(block, 10));
  CHECK(std::ranges::all_of(slots, [](const auto& slot) { return slot != nullptr; }));
  CHECK_FALSE(stream.take(window + 1, 10));
  slots.clear();
  head.run();
  CHECK(last_credit() == window);
  for (std::size_t i = 0; i < kMaxAnswersInTransport; ++i) head.link.on_sent();
  head.run(std::chrono::seconds(1));
  CHECK(last_credit() == 2 * window);
  CHECK(std::ranges::count_if(
            head.sent(), [](const Frame& frame) { return frame.header.type == FrameType::kCredit; }) <= 3);
  CHECK(head.node->statistics.bytes_in_transit == 0);
}

TEST_CASE("acknowledgements that wait are bounded, and a slot may outlive its link") {
  auto head = std::make_unique<Head>(line_plan());
  head->link.on_up(kIncoming);
  const StreamKey key = head->plan->streams().front()->key;
  for (std::size_t i = 0; i < 2 * kMaxQueuedAnswers; ++i) head->link.answer(frame_on(key, FrameType::kAck));
  head->link.answer(frame_on(key, FrameType::kAbort));
  std::size_t done = 0;
  for (; done < 3 * kMaxQueuedAnswers; ++done) {
    head->run();
    if (head->sent().size() == done) break;
    head->link.on_sent();
  }
  CHECK(done == kMaxQueuedAnswers + 2);  // credit, and the abort
  auto slot = head->link.find(key)->take(1, 10);
  REQUIRE(slot);
  head.reset();
  slot.reset();
}
