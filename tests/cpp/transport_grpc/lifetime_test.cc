// Stopping, dying and being killed, with traffic in flight.
#include <doctest/doctest.h>
#include <sys/prctl.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "peer_process.h"
#include "recorder.h"
#include "transport/grpc/limits.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

std::string text_of(const Buffer& payload) {
  std::string text(payload.size_bytes(), '\0');
  payload.copy_to(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

constexpr std::chrono::milliseconds kShortSilence = 500ms;

GrpcTransportOptions soon_impatient() {
  GrpcTransportOptions options;
  options.silence_deadline = kShortSilence;
  return options;
}

// The link that a PeerProcess opened, and the peer's own address.
std::pair<LinkHandle, std::string> meet(Node& parent) {
  const auto in = parent.recorder.wait_incoming("peer");
  REQUIRE(in.has_value());
  REQUIRE(parent.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 1; }));
  return {*in, text_of(parent.recorder.record(*in).frames.front().payload)};
}

}  // namespace

TEST_CASE("peer process" * doctest::skip()) {
  const char* parent = std::getenv(kParentVariable);
  if (parent == nullptr) return;  // all skipped cases were asked for: not a peer
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Node node("peer");
  const LinkHandle link = node.transport->open_link("parent", parent);
  REQUIRE(node.recorder.wait_up(link));
  const std::string address = node.transport->address();
  node.transport->send(link, block(1, Buffer::copy_of(std::as_bytes(std::span(address)))));
  std::this_thread::sleep_for(60s);
}

TEST_CASE("a killed peer is noticed at once on both kinds of link") {
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  const auto begin = std::chrono::steady_clock::now();
  peer.signal(SIGKILL);
  const Status head_down = parent.recorder.wait_down(in);
  const Status tail_down = parent.recorder.wait_down(out);
  const auto noticed = std::chrono::steady_clock::now() - begin;
  MESSAGE("noticed after " << noticed / 1us << " us: " << head_down.to_string() << "; "
                           << tail_down.to_string());
  CHECK(head_down.code() == StatusCode::kUnavailable);
  CHECK(tail_down.code() == StatusCode::kUnavailable);
  CHECK(noticed < 500ms);
}

TEST_CASE("a peer that stops for 2 s in the middle of everything keeps its links") {
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  CountedPayload payload(kMiB);
  for (int i = 0; i < 64; ++i) {
    parent.transport->send(out, block(1, payload.take()));
    parent.transport->send(in, block(1, payload.take()));
  }
  std::this_thread::sleep_for(2s);
  CHECK(parent.recorder.record(out).sent < 64);
  CHECK(parent.recorder.record(in).sent < 64);
  CHECK(parent.recorder.record(out).is_suspected);
  peer.signal(SIGCONT);
  const auto all_sent = [](const LinkRecord& record) { return record.sent == 64; };
  CHECK(parent.recorder.wait(out, all_sent));
  CHECK(parent.recorder.wait(in, all_sent));
  CHECK(parent.recorder.wait(out, [](const LinkRecord& record) { return !record.is_suspected; }));
  CHECK(parent.recorder.open_links() == 2);
}

TEST_CASE("a stopped peer is suspected also where its host takes the little that is sent all the time") {
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  CountedPayload payload(100);
  for (int i = 0; i < 50 && !parent.recorder.record(out).is_suspected; ++i) {
    parent.transport->send(out, block(1, payload.take()));
    std::this_thread::sleep_for(100ms);
  }
  CHECK(parent.recorder.record(out).is_suspected);
  peer.signal(SIGCONT);
  CHECK(parent.recorder.wait(out, [](const LinkRecord& record) { return !record.is_suspected; }));
}

TEST_CASE("a peer that is silent for too long is given up, and what it never read is let go") {
  Node parent("parent", soon_impatient());
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  CountedPayload payload(kMiB);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 64; ++i) {
    parent.transport->send(out, block(1, payload.take()));
    parent.transport->send(in, block(1, payload.take()));
  }
  const Status tail_down = parent.recorder.wait_down(out);
  const Status head_down = parent.recorder.wait_down(in);
  const auto noticed = std::chrono::steady_clock::now() - begin;
  MESSAGE("noticed after " << noticed / 1ms << " ms: " << head_down.to_string() << "; "
                           << tail_down.to_string());
  CHECK(tail_down.code() == StatusCode::kUnavailable);
  CHECK(head_down.code() == StatusCode::kUnavailable);
  CHECK(noticed < 2 * kShortSilence + 1s);
  CHECK(parent.recorder.record(out).sent < 64);
  const auto give_up = std::chrono::steady_clock::now() + 2s;
  while (payload.live() > 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
  CHECK(payload.live() == 0);
}

TEST_CASE("an idle link stays up, and pings find a peer that falls silent on it") {
  Node parent("parent", soon_impatient());
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  std::this_thread::sleep_for(5 * kShortSilence);
  CHECK(parent.recorder.open_links() == 2);
  const auto begin = std::chrono::steady_clock::now();
  peer.signal(SIGSTOP);
  CHECK(parent.recorder.wait_down(out).code() == StatusCode::kUnavailable);
  CHECK(parent.recorder.wait_down(in).code() == StatusCode::kUnavailable);
  const auto noticed = std::chrono::steady_clock::now() - begin;
  MESSAGE("noticed after " << noticed / 1ms << " ms");
  CHECK(noticed < 2 * kShortSilence + 1s);
}

TEST_CASE("stop with a stalled peer and full queues is quick and lets everything go") {
  CountedPayload payload(kMiB);
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  for (int i = 0; i < 100; ++i) {
    parent.transport->send(out, block(1, payload.take()));
    parent.transport->send(in, block(1, payload.take()));
  }
  std::this_thread::sleep_for(100ms);
  CHECK(payload.live() > 0);
  const auto begin = std::chrono::steady_clock::now();
  parent.stop();
  MESSAGE("stopped after " << (std::chrono::steady_clock::now() - begin) / 1us << " us");
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  CHECK(payload.live() == 0);
  CHECK(parent.recorder.record(out).down->code() == StatusCode::kCancelled);
  CHECK(parent.recorder.record(in).down->code() == StatusCode::kCancelled);
}

TEST_CASE("close_link with a stalled peer lets everything go soon") {
  CountedPayload payload(kMiB);
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  for (int i = 0; i < 100; ++i) parent.transport->send(out, block(1, payload.take()));
  std::this_thread::sleep_for(50ms);
  parent.transport->close_link(out);
  CHECK(parent.recorder.wait_down(out).code() == StatusCode::kCancelled);
  const auto give_up = std::chrono::steady_clock::now() + 1s;
  while (payload.live() > 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
  CHECK(payload.live() == 0);
}

TEST_CASE("more frames than a link may queue close it") {
  Node parent("parent");
  const PeerProcess peer(parent.transport->address());
  const auto [in, address] = meet(parent);
  const LinkHandle out = parent.transport->open_link("peer", address);
  REQUIRE(parent.recorder.wait_up(out));
  peer.signal(SIGSTOP);
  CountedPayload payload(kMiB);
  for (std::size_t i = 0; i < rpc::kMaxQueuedFrames + 100; ++i) {
    parent.transport->send(out, block(1, payload.take()));
  }
  CHECK(parent.recorder.wait_down(out).code() == StatusCode::kResourceExhausted);
  parent.stop();
  CHECK(payload.live() == 0);
}

TEST_CASE("50 times start, traffic both ways, and a stop that nobody was warned of") {
  CountedPayload payload(256 << 10U);
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    Node a("a"), b("b");
    b.recorder.frame_hook = [&](LinkHandle link, Frame) {
      b.transport->send(link, block(1, payload.take()));
    };
    a.recorder.frame_hook = [](LinkHandle, const Frame&) {};
    std::vector<LinkHandle> links;
    for (int i = 0; i < 3; ++i) links.push_back(a.open("b", b));
    std::atomic<bool> go_on = true;
    std::thread sender([&] {
      while (go_on) {
        for (const LinkHandle link : links) {
          a.transport->send(link, block(1, payload.take()));
          const LinkRecord record = a.recorder.record(link);
          if (record.down.has_value() || !record.up) std::this_thread::yield();
        }
        std::this_thread::sleep_for(200us);
      }
    });
    // From before the links are up to well after.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    if (round % 2 == 0) a.transport->close_link(links[0]);
    Node& first = round % 4 < 2 ? a : b;
    Node& second = round % 4 < 2 ? b : a;
    first.stop();
    first.stop();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2'000));
    second.stop();
    go_on = false;
    sender.join();
    REQUIRE(payload.live() == 0);
    for (const LinkHandle link : links) {
      REQUIRE(a.recorder.record(link).down.has_value());
      CHECK(a.recorder.open_links() == 0);
      CHECK(b.recorder.open_links() == 0);
    }
  }
}

TEST_CASE("links that open and close under traffic leave nothing behind") {
  CountedPayload payload(100'000);
  Node a("a"), b("b");
  b.recorder.frame_hook = [](LinkHandle, const Frame&) {};
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 100; ++round) {
    const LinkHandle link = a.open("b", b);
    for (int i = 0; i < 5; ++i) a.transport->send(link, block(1, payload.take()));
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    a.transport->close_link(link);
    REQUIRE(a.recorder.wait_down(link).code() == StatusCode::kCancelled);
  }
  a.stop();
  b.stop();
  CHECK(payload.live() == 0);
  CHECK(b.recorder.open_links() == 0);
}

TEST_CASE("links closed while they open leave no socket behind") {
  const auto sockets = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(std::filesystem::begin(entries), std::filesystem::end(entries));
  };
  Node a("a"), b("b");
  const LinkHandle first = a.open("b", b);
  REQUIRE(a.recorder.wait_up(first));
  a.transport->close_link(first);
  REQUIRE_FALSE(a.recorder.wait_down(first).is_ok());
  std::this_thread::sleep_for(50ms);
  const auto before = sockets();
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 300; ++round) {
    const LinkHandle link = a.open("b", b);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 600));
    a.transport->close_link(link);
    REQUIRE(a.recorder.wait_down(link).code() == StatusCode::kCancelled);
  }
  const auto give_up = std::chrono::steady_clock::now() + 5s;
  while (sockets() > before && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(10ms);
  CHECK(sockets() <= before);
}

TEST_CASE("a transport that was never started, or stopped twice, or left running, goes quietly") {
  GrpcTransportOptions options;
  options.node_name = "a";
  { auto unused = make_grpc_transport(options); }
  Recorder recorder;
  {
    auto left = make_grpc_transport(options);
    REQUIRE((*left)->start(recorder).is_ok());
    (void)(*left)->open_link("b", "127.0.0.1:1");
  }
  Node node("b");
  node.stop();
  node.stop();
  const LinkHandle late = node.transport->open_link("c", "127.0.0.1:1");
  node.transport->send(late, block(1));
  node.transport->close_link(late);
}
