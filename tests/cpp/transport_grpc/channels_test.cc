// Links of several channels: order, growing and shrinking, and peers that break the rules.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>
#include <thread>

#include "raw_peer.h"
#include "recorder.h"
#include "transport/grpc/control.h"
#include "transport/grpc/frame_order.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

RawPeer::Metadata channel(const std::string& from, const std::string& link, std::size_t number) {
  return {{"square-version", std::to_string(kProtocolVersion)},
          {"square-from", from},
          {"square-to", "b"},
          {"square-link", link},
          {"square-channel", std::to_string(number)}};
}

std::vector<std::byte> numbered(std::uint64_t sequence, std::size_t payload_bytes = 0) {
  Frame frame = block(sequence, CountedPayload(payload_bytes).take());
  frame.header.link_sequence = sequence;
  const auto header = encode_header(frame);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.resize(header.size() + payload_bytes, std::byte{0x42});
  return bytes;
}

Frame frame_number(std::uint64_t sequence, std::size_t payload_bytes = 0) {
  Frame frame = block(sequence, CountedPayload(payload_bytes).take());
  frame.header.link_sequence = sequence;
  return frame;
}

std::size_t sockets_of_process() {
  std::size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    struct stat status {};
    if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) ++count;
  }
  return count;
}

// Once those of what was stopped before are gone.
std::size_t settled_sockets() {
  constexpr int kAlike = 20;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  std::size_t count = sockets_of_process();
  for (int alike = 0; alike < kAlike && std::chrono::steady_clock::now() < give_up; ++alike) {
    std::this_thread::sleep_for(10ms);
    const std::size_t now = sockets_of_process();
    if (now != count) alike = -1;
    count = now;
  }
  return count;
}

}  // namespace

TEST_CASE("frames keep their order while channels come and go") {
  Node tail("a"), head("b");
  std::mt19937_64 random(test_seed());
  std::uint64_t next = 0;
  bool in_order = true;
  bool numbers_hidden = true;
  head.recorder.frame_hook = [&](LinkHandle, const Frame& frame) {
    in_order = in_order && frame.header.hop_sequence == ++next;
    numbers_hidden = numbers_hidden && frame.header.link_sequence == 0;
  };
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(out));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  constexpr std::uint64_t kFrames = 6000;
  CountedPayload large(300'000), small(100);
  for (std::uint64_t i = 1; i <= kFrames; ++i) {
    if (i % 500 == 0) tail.transport->set_channels(out, random() % (kMaxChannels + 2));
    REQUIRE(tail.recorder.wait(out, [&](const LinkRecord& record) {
      return i - record.sent <= frames_in_transport(4) || record.down.has_value();
    }));
    Frame frame = block(i, random() % 4 == 0 ? large.take() : small.take());
    frame.header.link_sequence = random();  // the transport's own, whatever a relay leaves in it
    tail.transport->send(out, std::move(frame));
    if (i % 100 == 0) head.transport->send(*in, block(i));
  }
  REQUIRE(head.recorder.wait(*in, [](const LinkRecord& record) { return record.received == kFrames; }));
  REQUIRE(tail.recorder.wait(out, [](const LinkRecord& record) { return record.sent == kFrames; }));
  REQUIRE(tail.recorder.wait(out, [](const LinkRecord& record) { return record.received == kFrames / 100; }));
  tail.stop();
  head.stop();
  CHECK(in_order);
  CHECK(numbers_hidden);
  CHECK(large.live() == 0);
  CHECK(small.live() == 0);
}

TEST_CASE("a link opens a connection for each channel, and closes them all") {
  Node tail("a"), head("b");
  const std::size_t before = settled_sockets();
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(out));
  const std::size_t one = sockets_of_process() - before;
  tail.transport->set_channels(out, 100);
  const auto wait_for = [&](std::size_t sockets) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (sockets_of_process() != sockets && std::chrono::steady_clock::now() < give_up) {
      std::this_thread::sleep_for(1ms);
    }
    return sockets_of_process() == sockets;
  };
  CHECK(wait_for(before + kMaxChannels * one));
  tail.transport->close_link(out);
  CHECK(tail.recorder.wait_down(out).code() == StatusCode::kCancelled);
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  CHECK(head.recorder.wait_down(*in).code() == StatusCode::kUnavailable);
  CHECK(wait_for(before));
}

TEST_CASE("stop while channels open") {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20; ++round) {
    CountedPayload payload(100'000);
    Node a("a"), b("b");
    b.recorder.frame_hook = [](LinkHandle, const Frame&) {};
    const LinkHandle link = a.open("b", b);
    a.transport->set_channels(link, 8);
    for (int i = 0; i < 20; ++i) a.transport->send(link, block(1, payload.take()));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    a.transport->set_channels(link, 16);
    (round % 2 == 0 ? a : b).stop();
    (round % 2 == 0 ? b : a).stop();
    CHECK(payload.live() == 0);
  }
}

TEST_CASE("the round trip of a link is measured") {
  Node tail("a"), head("b");
  const LinkHandle out = tail.open("b", head);
  REQUIRE(tail.recorder.wait(out, [](const LinkRecord& record) { return !record.round_trips.empty(); }));
  const Duration first = tail.recorder.record(out).round_trips.front();
  MESSAGE("round trip " << first / 1us << " us");
  CHECK(first > Duration(0));
  CHECK(first < 1s);
  tail.transport->send(out, block(1));
  CHECK(tail.recorder.wait(out, [](const LinkRecord& record) { return record.round_trips.size() >= 2; }));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  CHECK(head.recorder.record(*in).round_trips.empty());
}

TEST_CASE("a channel needs its link, and its number but once") {
  Node node("b");
  RawPeer first(node.transport->address(), channel("a", "x", 0));
  REQUIRE(first.was_accepted());
  RawPeer second(node.transport->address(), channel("a", "x", 1));
  CHECK(second.was_accepted());
  CHECK(RawPeer(node.transport->address(), channel("a", "y", 1)).finish().error_code() ==
        grpc::StatusCode::NOT_FOUND);
  CHECK(RawPeer(node.transport->address(), channel("c", "x", 1)).finish().error_code() ==
        grpc::StatusCode::NOT_FOUND);
  CHECK(RawPeer(node.transport->address(), channel("a", "x", 1)).finish().error_code() ==
        grpc::StatusCode::ALREADY_EXISTS);
  for (const char* number : {"16", "-1", "x", "1x", "99999999999999999999"}) {
    auto metadata = channel("a", "x", 0);
    metadata["square-channel"] = number;
    CHECK(RawPeer(node.transport->address(), metadata).finish().error_code() ==
          grpc::StatusCode::INVALID_ARGUMENT);
  }
  CHECK(node.recorder.open_links() == 1);
}

TEST_CASE("the head puts frames of several channels in order, and ends the link with a channel") {
  Node node("b");
  RawPeer first(node.transport->address(), channel("a", "x", 0));
  const auto in = node.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  {
    RawPeer second(node.transport->address(), channel("a", "x", 1));
    REQUIRE(second.was_accepted());
    for (const std::uint64_t sequence : {2, 4, 5}) REQUIRE(second.write(numbered(sequence, 1000)));
    std::this_thread::sleep_for(20ms);
    CHECK(node.recorder.record(*in).received == 0);
    for (const std::uint64_t sequence : {1, 3, 6}) REQUIRE(first.write(numbered(sequence, 1000)));
    REQUIRE(node.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 6; }));
    const auto frames = node.recorder.record(*in).frames;
    for (std::uint64_t i = 0; i < 6; ++i) CHECK(frames[i].header.hop_sequence == i + 1);
  }
  CHECK(node.recorder.wait_down(*in).code() == StatusCode::kUnavailable);
  CHECK_FALSE(first.finish().ok());
}

TEST_CASE("numbers that cannot be end the link") {
  for (const auto& sequences : std::vector<std::vector<std::uint64_t>>{{1, 1}, {3, 3}, {1, 2, 1}, {1, 0}}) {
    Node node("b");
    RawPeer peer(node.transport->address(), channel("a", "x", 0));
    const auto in = node.recorder.wait_incoming("a");
    REQUIRE(in.has_value());
    for (const std::uint64_t sequence : sequences) peer.write(numbered(sequence));
    CHECK(node.recorder.wait_down(*in).code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("frames that wait for one that never comes are bounded") {
  Node node("b");
  RawPeer peer(node.transport->address(), channel("a", "x", 0));
  const auto in = node.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  for (std::uint64_t sequence = 2; sequence < 100; ++sequence) {
    if (!peer.write(numbered(sequence, kMaxPayloadBytes))) break;
  }
  const Status down = node.recorder.wait_down(*in);
  CHECK(down.code() == StatusCode::kDataLoss);
  CHECK(down.message().find("wait for frame 1") != std::string::npos);
  CHECK(node.recorder.record(*in).received == 0);
}

TEST_CASE("control messages that make no sense end the link") {
  const auto bytes_of = [](const rpc::Control& control) {
    std::vector<grpc::Slice> slices;
    REQUIRE(rpc::to_message(control).Dump(&slices).ok());
    const auto* data = reinterpret_cast<const std::byte*>(slices.front().begin());
    return std::vector<std::byte>(data, data + slices.front().size());
  };
  auto damaged = bytes_of({rpc::ControlType::kPing, 7});
  damaged[8] ^= std::byte{1};
  for (const auto& message :
       {bytes_of({rpc::ControlType::kPong, 7}), bytes_of({rpc::ControlType::kDelivered, 7}),
        bytes_of({static_cast<rpc::ControlType>(9), 7}), damaged}) {
    Node node("b");
    RawPeer peer(node.transport->address(), channel("a", "x", 0));
    const auto in = node.recorder.wait_incoming("a");
    REQUIRE(in.has_value());
    peer.write(message);
    CHECK(node.recorder.wait_down(*in).code() == StatusCode::kDataLoss);
  }
}

TEST_CASE("a window is never used beyond its bound by an honest tail") {
  std::mt19937_64 random(test_seed());
  rpc::SendWindow window;
  rpc::FrameOrder order;
  // The worst that channels can do: the first frame comes last.
  std::uint64_t sequence = 1;
  window.add(kMaxPayloadBytes);
  while (window.has_room(3)) {
    const std::size_t size = random() % (kMaxPayloadBytes + 1);
    window.add(size);
    REQUIRE(order.put(frame_number(++sequence, size), 3).is_ok());
  }
  CHECK_FALSE(order.take().has_value());
  REQUIRE(order.put(frame_number(1), 3).is_ok());
  std::uint64_t taken = 0;
  while (order.take().has_value()) ++taken;
  CHECK(taken == sequence);
  CHECK_FALSE(window.set_delivered(std::uint64_t{1} << 60U));
  CHECK(window.set_delivered(5000));
  CHECK_FALSE(window.set_delivered(4999));
}
