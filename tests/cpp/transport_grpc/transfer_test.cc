// What arrives, in which order, and when memory is let go.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <thread>

#include "recorder.h"
#include "transport/grpc/limits.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

std::vector<std::byte> random_tensor(std::uint64_t seed, std::size_t size_bytes) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> tensor(size_bytes);
  for (std::size_t at = 0; at + 8 <= size_bytes; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(tensor.data() + at, &word, 8);
  }
  return tensor;
}

// Sends the tensor in blocks, never more than kMaxFramesInTransport ahead of on_sent.
void send_tensor(Node& node, LinkHandle link, const std::vector<std::byte>& tensor, std::size_t block_bytes) {
  std::uint64_t given = 0;
  for (std::size_t at = 0; at < tensor.size(); at += block_bytes) {
    REQUIRE(node.recorder.wait(
        link, [&](const LinkRecord& record) { return given - record.sent < kMaxFramesInTransport; }));
    Frame frame =
        block(++given, Buffer(nullptr, tensor.data() + at, std::min(block_bytes, tensor.size() - at)));
    frame.header.offset_bytes = at;
    frame.header.total_bytes = tensor.size();
    node.transport->send(link, std::move(frame));
  }
  REQUIRE(node.recorder.wait(link, [&](const LinkRecord& record) { return record.sent == given; }));
}

// Gathers blocks into a tensor.
struct Gatherer {
  explicit Gatherer(std::size_t size_bytes) : tensor(size_bytes) {}

  void take(const Frame& frame) {
    in_order = in_order && frame.header.hop_sequence == ++count;
    frame.payload.copy_to(tensor.data() + frame.header.offset_bytes);
  }

  std::vector<std::byte> tensor;
  std::uint64_t count = 0;
  bool in_order = true;
};

}  // namespace

TEST_CASE("64 MiB in frames of 1 MiB arrive byte for byte, both ways at once") {
  const std::uint64_t seed = test_seed();
  const auto forth = random_tensor(seed, 64 * kMiB);
  const auto back = random_tensor(seed + 1, 64 * kMiB);
  Node tail("a"), head("b");
  Gatherer at_head(forth.size()), at_tail(back.size());
  head.recorder.frame_hook = [&](LinkHandle, const Frame& frame) { at_head.take(frame); };
  tail.recorder.frame_hook = [&](LinkHandle, const Frame& frame) { at_tail.take(frame); };
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(out));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  std::thread other([&] { send_tensor(head, *in, back, kMiB); });
  send_tensor(tail, out, forth, kMiB);
  other.join();
  REQUIRE(head.recorder.wait(
      *in, [](const LinkRecord& record) { return record.received == 64 && record.inside == 0; }));
  REQUIRE(tail.recorder.wait(
      out, [](const LinkRecord& record) { return record.received == 64 && record.inside == 0; }));
  tail.stop();
  head.stop();
  CHECK(at_head.in_order);
  CHECK(at_tail.in_order);
  CHECK(at_head.tensor == forth);
  CHECK(at_tail.tensor == back);
}

TEST_CASE("10,000 small frames arrive in order, each reported sent once") {
  Node tail("a"), head("b");
  const LinkHandle out = tail.open("b", head);
  constexpr std::uint64_t kFrames = 10'000;
  CountedPayload payload(24);
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    REQUIRE(tail.recorder.wait(out, [&](const LinkRecord& record) { return i - record.sent < 1000; }));
    tail.transport->send(out, block(i, payload.take()));
  }
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  REQUIRE(head.recorder.wait(*in, [](const LinkRecord& record) { return record.received == kFrames; }));
  REQUIRE(tail.recorder.wait(out, [](const LinkRecord& record) { return record.sent == kFrames; }));
  tail.stop();
  const auto frames = head.recorder.record(*in).frames;
  bool in_order = true;
  for (std::uint64_t i = 0; i < kFrames; ++i) in_order = in_order && frames[i].header.hop_sequence == i + 1;
  CHECK(in_order);
  CHECK(tail.recorder.record(out).sent == kFrames);
  CHECK(payload.live() == 0);
}

TEST_CASE("a relay passes received slices on, and they outlive its transports") {
  const auto tensor = random_tensor(test_seed(), 8 * kMiB);
  Gatherer sink(tensor.size());
  std::vector<Frame> kept;
  {
    Node source("a"), relay("r"), target("b");
    target.recorder.frame_hook = [&](LinkHandle, Frame frame) {
      sink.take(frame);
      kept.push_back(std::move(frame));
    };
    const LinkHandle second = relay.open("b", target);
    REQUIRE(relay.recorder.wait_up(second));
    relay.recorder.frame_hook = [&](LinkHandle, Frame frame) {
      relay.transport->send(second, std::move(frame));  // from inside the handler
    };
    const LinkHandle first = source.open("r", relay);
    REQUIRE(source.recorder.wait_up(first));
    send_tensor(source, first, tensor, kMiB);
    const auto in = target.recorder.wait_incoming("r");
    REQUIRE(in.has_value());
    REQUIRE(target.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 8; }));
  }
  CHECK(sink.tensor == tensor);
  for (const Frame& frame : kept) {
    std::vector<std::byte> bytes(frame.payload.size_bytes());
    frame.payload.copy_to(bytes.data());
    CHECK(std::memcmp(bytes.data(), tensor.data() + frame.header.offset_bytes, bytes.size()) == 0);
  }
}

TEST_CASE("a small payload does not keep gRPC's read buffer") {
  Node tail("a"), head("b");
  const LinkHandle out = tail.open("b", head);
  tail.transport->send(out, block(1, CountedPayload(8192).take()));
  tail.transport->send(out, block(2, CountedPayload(rpc::kCopiedPayloadBytes).take()));
  tail.transport->send(out, block(3, CountedPayload(rpc::kCopiedPayloadBytes + 1).take()));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  REQUIRE(head.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 3; }));
  const auto frames = head.recorder.record(*in).frames;
  // One slice whose owner owns nothing else, against the slices of the reads.
  CHECK(frames[0].payload.slices().size() == 1);
  CHECK(frames[0].payload.slices().front().owner.get() == frames[0].payload.slices().front().data);
  CHECK(frames[1].payload.slices().size() == 1);
  CHECK(frames[1].payload.slices().front().owner.get() == frames[1].payload.slices().front().data);
  CHECK(frames[2].payload.slices().front().owner.get() != frames[2].payload.slices().front().data);
}

TEST_CASE("payload is let go once it is sent, and at once where there is no link") {
  Node tail("a"), head("b");
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(out));
  CountedPayload payload(kMiB);
  for (int i = 0; i < 4; ++i) tail.transport->send(out, block(1, payload.take()));
  REQUIRE(tail.recorder.wait(out, [](const LinkRecord& record) { return record.sent == 4; }));
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (payload.live() > 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
  CHECK(payload.live() == 0);
  tail.transport->close_link(out);
  CHECK(tail.recorder.wait_down(out).code() == StatusCode::kCancelled);
  tail.transport->send(out, block(1, payload.take()));
  tail.transport->send(LinkHandle(12345), block(1, payload.take()));
  tail.transport->close_link(LinkHandle(12345));
  CHECK(payload.live() == 0);
}

TEST_CASE("a handler may send and close from inside") {
  Node tail("a"), head("b");
  head.recorder.up_hook = [&](LinkHandle link) { head.transport->send(link, block(1)); };
  head.recorder.frame_hook = [&](LinkHandle link, Frame frame) {
    if (frame.header.hop_sequence == 100) return head.transport->close_link(link);
    ++frame.header.hop_sequence;
    head.transport->send(link, std::move(frame));
  };
  tail.recorder.frame_hook = [&](LinkHandle link, Frame frame) {
    ++frame.header.hop_sequence;
    tail.transport->send(link, std::move(frame));
  };
  const LinkHandle out = tail.open("b", head);
  const Status down = tail.recorder.wait_down(out);
  CHECK(down.code() == StatusCode::kUnavailable);
  CHECK(down.message().find("node \"b\"") != std::string::npos);
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  CHECK(head.recorder.wait_down(*in).code() == StatusCode::kCancelled);
  CHECK(head.recorder.record(*in).received == 50);
}

TEST_CASE("links between the same two nodes are apart") {
  Node a("a"), b("b");
  const LinkHandle first = a.open("b", b), second = a.open("b", b), reverse = b.open("a", a);
  REQUIRE(a.recorder.wait_up(first));
  REQUIRE(a.recorder.wait_up(second));
  REQUIRE(b.recorder.wait_up(reverse));
  a.transport->close_link(first);
  CHECK(a.recorder.wait_down(first).code() == StatusCode::kCancelled);
  a.transport->send(second, block(7));
  REQUIRE(b.recorder.wait_incoming("a", 2).has_value());
  b.transport->send(reverse, block(9));
  const auto in = a.recorder.wait_incoming("b");
  REQUIRE(in.has_value());
  CHECK(a.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 1; }));
  CHECK_FALSE(a.recorder.record(second).down.has_value());
}

TEST_CASE("a patient transport brings all frames in order, and stops") {
  Node tail("a"), head("b");
  Gatherer gathered(4 * kMiB);
  const auto tensor = random_tensor(test_seed(), 4 * kMiB);
  head.recorder.frame_hook = [&](LinkHandle, const Frame& frame) { gathered.take(frame); };
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(out));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in);
  for (Node* node : {&tail, &head}) node->transport->set_patience(5ms);
  send_tensor(tail, out, tensor, 64 << 10);
  REQUIRE(head.recorder.wait(
      *in, [](const LinkRecord& record) { return record.received == 64 && record.inside == 0; }));
  CHECK(gathered.in_order);
  CHECK(gathered.tensor == tensor);
}
