// When credit and paced blocks go: at the points in time that a node's links share.
#include <doctest/doctest.h>

#include <map>
#include <utility>
#include <vector>

#include "node/links/incoming_link.h"
#include "node/links/outgoing_link.h"
#include "node/links/tick.h"
#include "node/messages/answers.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

// A clock, an executor and a transport that do nothing by themselves.
class Bench final : public Clock, public Executor, public Transport {
 public:
  TimePoint now() const override { return now_; }
  void post(Task task) override { tasks_.push_back(std::move(task)); }
  TimerId post_at(TimePoint when, Task task) override {
    timers_.emplace(std::pair(when, ++last_timer_), std::move(task));
    return last_timer_;
  }
  void cancel(TimerId timer) override {
    std::erase_if(timers_, [&](const auto& known) { return known.first.second == timer; });
  }
  void work(std::size_t /*bytes*/, Task task) override { task(); }

  Status start(TransportHandler&) override { return Status::ok(); }
  std::string address() const override { return {}; }
  LinkHandle open_link(std::string_view, std::string_view) override { return LinkHandle(0); }
  void send(LinkHandle, Frame frame) override { sent.emplace_back(now_, std::move(frame)); }
  void set_channels(LinkHandle, std::size_t) override {}
  void close_link(LinkHandle) override {}
  void stop() override {}

  void run_until(TimePoint end) {
    while (true) {
      if (!tasks_.empty()) {
        const Task task = std::move(tasks_.front());
        tasks_.erase(tasks_.begin());
        task();
      } else if (!timers_.empty() && timers_.begin()->first.first <= end) {
        auto timer = timers_.extract(timers_.begin());
        now_ = std::max(now_, timer.key().first);
        timer.mapped()();
      } else {
        break;
      }
    }
    now_ = end;
  }

  std::vector<std::pair<TimePoint, Frame>> sent;

 private:
  TimePoint now_{1s};
  std::vector<Task> tasks_;
  std::map<std::pair<TimePoint, TimerId>, Task> timers_;
  TimerId last_timer_ = 0;
};

LocalStream stream_of(std::uint16_t index, std::size_t window_blocks) {
  LocalStream stream;
  stream.key = {Epoch(1), SessionId(index), StreamIndex(0)};
  stream.tenant = "tenant";
  stream.rate_bps = 10e6;
  stream.window->blocks = window_blocks;
  stream.window->credit_blocks = window_blocks / 2;
  return stream;
}

}  // namespace

TEST_CASE("ticks are the same points for everybody, and none is early") {
  CHECK(tick_after(TimePoint(8ms), 4ms) == TimePoint(8ms));
  CHECK(tick_after(TimePoint(8ms + 1ns), 4ms) == TimePoint(12ms));
  CHECK(tick_after(TimePoint(0ms), 4ms) == TimePoint(0ms));
}

TEST_CASE("credit waits for a tick and goes with that of other streams, but not if little is left") {
  Bench bench;
  const auto node = std::shared_ptr<NodeContext>(new NodeContext{{}, bench, bench, bench});
  Flush flush(bench, [](const StreamKey&) {});
  const std::vector<LocalStream> streams{stream_of(0, 16), stream_of(1, 16)};
  IncomingLink link(node, "tail", flush);
  for (const LocalStream& stream : streams) link.add_stream(nullptr, stream);
  link.on_up(LinkHandle(1));
  bench.run_until(TimePoint(1s + 1ms));
  REQUIRE(bench.sent.size() == 2);  // the first credit at once
  const auto take = [&](std::uint16_t index, std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i <= last; ++i) {
      REQUIRE(link.find({Epoch(1), SessionId(index), StreamIndex(0)})->take(i, 8192) != nullptr);
    }
  };
  take(0, 1, 9);  // more than half of the window
  bench.run_until(TimePoint(1s + 5ms));
  take(1, 1, 8);
  bench.run_until(TimePoint(1s + 10ms));
  take(0, 10, 11);  // taken and free again before the tick: announced with the rest
  CHECK(bench.sent.size() == 2);
  bench.run_until(TimePoint(1s + 30ms));
  REQUIRE(bench.sent.size() == 4);
  CHECK(bench.sent[2].first == TimePoint(1s + 20ms));
  CHECK(bench.sent[3].first == TimePoint(1s + 20ms));
  CHECK(bench.sent[2].second.header.hop_sequence == 16 + 11);
  CHECK(bench.sent[3].second.header.hop_sequence == 16 + 8);
  take(0, 12, 11 + 12);  // three quarters of what was announced
  bench.run_until(TimePoint(1s + 31ms));
  REQUIRE(bench.sent.size() == 5);
  CHECK(bench.sent[4].first == TimePoint(1s + 30ms));
}

TEST_CASE("an acknowledgement that nobody waits for goes with others, and at once where little is said") {
  Bench bench;
  const auto node = std::shared_ptr<NodeContext>(new NodeContext{{}, bench, bench, bench});
  Flush flush(bench, [](const StreamKey&) {});
  IncomingLink link(node, "tail", flush);
  link.on_up(LinkHandle(1));
  const auto answer = [&](bool done, bool accepting, bool awaited = false) {
    Acknowledgement ack;
    ack.awaited = awaited;
    ack.done = done;
    ack.accepting = accepting;
    Frame frame;
    frame.header.type = FrameType::kAck;
    frame.payload = encode_acknowledgement(ack);
    link.answer(std::move(frame));
  };
  bench.run_until(TimePoint(1s + 1ms));
  answer(false, true);
  bench.run_until(TimePoint(1s + 2ms));
  CHECK(bench.sent.size() == 1);
  answer(false, true);
  answer(false, true);
  bench.run_until(TimePoint(1s + 19ms));
  CHECK(bench.sent.size() == 1);
  bench.run_until(TimePoint(1s + 21ms));
  CHECK(bench.sent.size() == 3);
  CHECK(bench.sent.back().first == TimePoint(1s + 20ms));
  answer(false, true);
  answer(true, true);  // takes with it what waits
  bench.run_until(TimePoint(1s + 22ms));
  CHECK(bench.sent.size() == 5);
  answer(false, false);
  bench.run_until(TimePoint(1s + 23ms));
  CHECK(bench.sent.size() == 6);
  answer(false, true, true);  // to a probe
  bench.run_until(TimePoint(1s + 24ms));
  CHECK(bench.sent.size() == 7);
}

TEST_CASE("pacers let blocks of all links through at the same points, and at their rate") {
  Bench bench;
  NodeContext node{{}, bench, bench, bench};
  Pacer egress(kUnlimited);
  Flush flush(bench, [](const StreamKey&) {});
  LocalStream relayed = stream_of(0, 16);
  relayed.parents = {"source"};
  OutgoingLink one(node, "one", egress, flush);
  OutgoingLink other(node, "other", egress, flush);
  constexpr std::size_t kBlocks = 200;
  const auto data = std::make_shared<std::vector<std::byte>>(8192);
  for (OutgoingLink* link : {&one, &other}) {
    const auto stream = link->add_stream(nullptr, relayed);
    link->set_pace(link == &one ? 10e6 : 7e6);
    link->on_up(LinkHandle(link == &one ? 1 : 2));
    link->on_credit(*stream, kBlocks);
    for (std::size_t i = 0; i < kBlocks; ++i) {
      Frame frame{{}, Buffer(data, data->data(), data->size())};
      frame.header.type = FrameType::kBlock;
      stream->enqueue(std::move(frame), nullptr);
    }
  }
  // Ends of writes come at any time: what fell due since the tick does not go with them.
  for (Duration at = 0ms; at < 1s; at += 1ms) {
    bench.run_until(TimePoint(1s + at));
    one.on_sent();
    other.on_sent();
  }
  std::size_t off_tick = 0;
  for (const auto& [when, frame] : bench.sent) {
    const bool is_first = when == TimePoint(1s);
    if (!is_first && when != tick_after(when, kPaceTick)) ++off_tick;
  }
  CHECK(off_tick == 0);
  // 17 Mbit/s of blocks with their headers in a second, and the burst of the first moment.
  const double blocks = static_cast<double>(bench.sent.size());
  CHECK(blocks * 8192 * 8 > 0.97 * 17e6);
  CHECK(blocks * 8192 * 8 < 1.01 * 17e6);
}
