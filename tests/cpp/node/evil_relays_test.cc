// What a relay can do to others that runs another program: no more than docs/security.md says.
#include <doctest/doctest.h>

#include "node/aborts/aborts.h"
#include "node/evil_relay.h"
#include "node/links/incoming_link.h"
#include "node/messages/answers.h"
#include "node/parts.h"
#include "node/sums.h"
#include "node/sums/relayed_sums.h"

using namespace square;
using namespace square::test;

namespace {

using Line = std::pair<std::uint32_t, std::uint32_t>;

// An overlay in which that node is evil.
struct EvilOverlay {
  EvilRelay* relay = nullptr;
  Overlay overlay;

  EvilOverlay(std::size_t nodes, std::size_t evil)
      : overlay(1, nodes, {}, [this, evil](std::size_t node, std::unique_ptr<Transport> transport) {
          if (node != evil) return transport;
          auto made = std::make_unique<EvilRelay>(std::move(transport));
          relay = made.get();
          return std::unique_ptr<Transport>(std::move(made));
        }) {}

  void pass(Duration time) {
    overlay.run([] { return false; }, time);
  }
};

void add_lines(PlanBuilder& builder, const std::vector<Line>& lines) {
  for (const auto& [from, to] : lines) builder.add_link(from, to, 100 * kMbps);
}

// The last block that the relay has sent, and the credit that it has got: what it needs to write others.
struct Pattern {
  std::optional<FrameHeader> header;
  std::uint64_t sent = 0;
  std::uint64_t credit = 0;

  explicit Pattern(EvilRelay& relay) {
    relay.on_send = [this](const Frame& frame) {
      if (frame.header.type != FrameType::kBlock) return true;
      header = frame.header;
      sent = std::max(sent, frame.header.hop_sequence);
      return true;
    };
    relay.on_get = [this](const Frame& frame) {
      if (frame.header.type == FrameType::kCredit) credit = std::max(credit, frame.header.hop_sequence);
      return true;
    };
  }

  Frame block(OperationId operation, std::uint64_t offset, std::size_t bytes) {
    Frame frame{*header, Buffer::copy_of(std::vector<std::byte>(bytes))};
    frame.header.operation = operation;
    frame.header.offset_bytes = offset;
    frame.header.attempt = 0;
    frame.header.hop_sequence = ++sent;
    frame.header.stream_sequence = 1;
    return frame;
  }
};

std::vector<std::vector<float>> ones(std::size_t members, std::size_t count) {
  return std::vector(members, std::vector<float>(count, 1.0F));
}

}  // namespace

TEST_CASE("sums that nobody calls take no room at a relay from those of others") {
  // Evil 2 feeds relay 1, over which another group's sum goes.
  EvilOverlay evil(6, 2);
  Overlay& overlay = evil.overlay;
  PlanBuilder builder(6);
  add_lines(builder, {{3, 2}, {2, 1}, {1, 0}, {5, 1}, {1, 4}});
  builder.add_reduce(0, {0, 3}, {{{{3, 2}, {2, 1}, {1, 0}}, 10 * kMbps}});
  builder.add_reduce(4, {4, 5}, {{{{5, 1}, {1, 4}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 3});
  overlay.set_members(CollectiveId(1), {4, 5});
  Pattern pattern(*evil.relay);
  Sum first(CollectiveId(0), {0, 3}, ones(2, 1'000), 0, false);
  first.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over(); }));
  evil.pass(std::chrono::seconds(1));
  for (std::uint64_t made_up = 1; made_up <= kMaxRelayedSums + 100; ++made_up) {
    overlay.run([&] { return pattern.sent < pattern.credit; }, std::chrono::seconds(1));
    Frame block = pattern.block(OperationId(1'000'000 + made_up), 0, 4);
    block.header.total_bytes = 4;
    evil.relay->send_to("n1", std::move(block));
  }
  evil.pass(std::chrono::seconds(1));
  Sum second(CollectiveId(1), {4, 5}, ones(2, 16'384), 0, false);
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return second.is_over(); }, std::chrono::seconds(2)));
  CHECK(second.is_right());
}

TEST_CASE("a relay has no say on streams of a sum that it is not on, also before the root calls") {
  EvilOverlay evil(4, 2);
  Overlay& overlay = evil.overlay;
  PlanBuilder builder(4);
  add_lines(builder, {{3, 1}, {1, 0}, {3, 2}, {2, 0}});
  builder.add_reduce(0, {0, 3}, {{{{3, 1}, {1, 0}}, 10 * kMbps}, {{{3, 2}, {2, 0}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 3});
  Pattern pattern(*evil.relay);
  constexpr std::size_t kCount = 16'384;
  Sum first(CollectiveId(0), {0, 3}, ones(2, kCount), 0, false);
  first.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over(); }));
  evil.pass(std::chrono::seconds(1));
  const FrameHeader& header = *pattern.header;
  const std::size_t blocks = (header.total_bytes + header.block_bytes - 1) / header.block_bytes;
  for (std::size_t block = 0; block < blocks && pattern.sent < pattern.credit; ++block) {
    const std::uint64_t offset = block * header.block_bytes;
    const std::size_t bytes = std::min<std::size_t>(header.block_bytes, header.total_bytes - offset);
    evil.relay->send_to("n0", pattern.block(OperationId(1), offset, bytes));
  }
  evil.pass(std::chrono::milliseconds(100));
  Sum second(CollectiveId(0), {0, 3}, ones(2, kCount), 0, false);
  second.operation = OperationId(1);
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return second.is_over(); }, std::chrono::seconds(10)));
  // Its own half it may well have changed: docs/security.md.
  const auto right = std::ranges::count(second.outputs[0], 2.0F);
  CHECK(right >= static_cast<std::ptrdiff_t>(kCount / 2 - header.block_bytes / sizeof(float)));
}

TEST_CASE("aborts that a relay makes up die out among nodes in a circle") {
  constexpr std::size_t kEvil = 4;
  EvilOverlay evil(5, kEvil);
  Overlay& overlay = evil.overlay;
  PlanBuilder builder(5);
  for (std::uint32_t from = 0; from < 5; ++from) {
    for (std::uint32_t to = 0; to < 5; ++to)
      if (from != to) builder.add_link(from, to, 20 * kMbps, std::chrono::milliseconds(20));
  }
  const auto set_delay = [&](std::size_t one, std::size_t other, int milliseconds) {
    LinkConditions conditions;
    conditions.capacity_bps = 20 * kMbps;
    conditions.delay = std::chrono::milliseconds(milliseconds);
    overlay.simulation.set_conditions(node_name(one), node_name(other), conditions);
    overlay.simulation.set_conditions(node_name(other), node_name(one), conditions);
  };
  set_delay(1, 2, 10);
  set_delay(1, 3, 60);
  set_delay(2, 3, 120);
  set_delay(0, 2, 80);
  set_delay(0, 3, 150);
  builder.add_broadcast(0, {0, 1, 2, 3},
                        {{{{0, 4}, {4, 1}, {1, 2}, {2, 3}}, 4 * kMbps},
                         {{{0, 2}, {2, 3}, {3, 1}}, 4 * kMbps},
                         {{{0, 3}, {3, 2}, {2, 1}}, 4 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
  Pattern pattern(*evil.relay);
  Broadcast call(CollectiveId(0), {0, 1, 2, 3}, std::vector<std::byte>(300'000));
  call.post_all(overlay);
  REQUIRE(overlay.run([&] { return call.is_over(); }));
  evil.pass(std::chrono::seconds(1));
  std::uint64_t heard = 0;
  evil.relay->on_get = [&](const Frame& frame) {
    heard += frame.header.type == FrameType::kAbort ? 1 : 0;
    return true;
  };
  evil.relay->on_send = [](const Frame& frame) { return frame.header.type != FrameType::kAbort; };
  for (std::uint64_t i = 0; i < 2 * kMaxRememberedAborts; ++i) {
    Frame abort{*pattern.header, encode_abort(unavailable("made up"))};
    abort.header.type = FrameType::kAbort;
    abort.header.operation = OperationId(1'000'000'000 + i);
    abort.header.stream_sequence = 0;
    evil.relay->send_to("n1", std::move(abort));
  }
  evil.pass(std::chrono::seconds(10));
  const std::uint64_t soon = heard;
  evil.pass(std::chrono::seconds(20));
  CHECK(soon <= 4 * kMaxHeardAborts);
  CHECK(heard == soon);
}

TEST_CASE("answers that wait for a link that is slow are bounded in bytes") {
  Alone alone("n1");
  Flush flush(*alone.executor, [](const StreamKey&) {});
  IncomingLink link(alone.node, "n0", flush);
  const LinkHandle handle(1);
  (void)link.on_up(handle);
  Frame answer;
  answer.header.type = FrameType::kRequest;
  answer.payload = Buffer::copy_of(std::vector<std::byte>(kMaxRequestBytes));
  for (int i = 0; i < 1'000; ++i) link.answer(answer);
  std::size_t sent = 0;
  while (!link.is_idle()) {
    link.send_due();
    for (std::size_t now = alone.transport.sent[handle].size(); sent < now; ++sent) link.on_sent();
  }
  CHECK(sent == kMaxQueuedAnswerBytes / kMaxRequestBytes);
}

TEST_CASE("what is longer than what nodes write is not passed on") {
  EvilOverlay evil(3, 2);
  Overlay& overlay = evil.overlay;
  PlanBuilder builder(3);
  add_lines(builder, {{2, 1}, {1, 0}});
  builder.add_broadcast(2, {0, 2}, {{{{2, 1}, {1, 0}}, 10 * kMbps}});
  REQUIRE(overlay.publish(builder.build()));
  overlay.set_members(CollectiveId(0), {2, 0});
  Pattern pattern(*evil.relay);
  Broadcast call(CollectiveId(0), {2, 0}, std::vector<std::byte>(10'000));
  call.post_all(overlay);
  REQUIRE(overlay.run([&] { return call.is_over(); }));
  const auto refused = [&] {
    return statistics_of(overlay, 1).frames_refused + statistics_of(overlay, 0).frames_refused;
  };
  const std::uint64_t before = refused();
  for (const auto& [type, most] : std::vector<std::pair<FrameType, std::size_t>>{
           {FrameType::kProbe, 0}, {FrameType::kCreditRequest, 0}, {FrameType::kAbort, kMaxAbortBytes}}) {
    Frame frame{*pattern.header, Buffer::copy_of(std::vector<std::byte>(most + 1))};
    frame.header.type = type;
    evil.relay->send_to("n1", std::move(frame));
  }
  evil.pass(std::chrono::seconds(1));
  CHECK(refused() == before + 3);
  CHECK(statistics_of(overlay, 1).frames_refused >= before + 3);
}
