// Peers that mean harm: they are closed, memory keeps its bound, and others do not notice.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <thread>

#include "heard.h"
#include "raw_connection.h"
#include "raw_peer.h"
#include "recorder.h"
#include "transport/grpc/limits.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

// The aim is a second; a busy machine gets more.
constexpr std::chrono::milliseconds kCloseTime = 5s;
constexpr std::size_t kQuotaBytes = 64 * kMiB;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// The most memory that the process had, above what it had at first.
class MemoryGrowth {
 public:
  MemoryGrowth() : before_(resident_bytes()), most_(before_) {
    watcher_ = std::thread([this] {
      while (!done_) {
        most_ = std::max(most_.load(), resident_bytes());
        std::this_thread::sleep_for(2ms);
      }
    });
  }
  ~MemoryGrowth() {
    done_ = true;
    watcher_.join();
  }
  [[nodiscard]] std::size_t bytes() const { return most_ - before_; }

 private:
  const std::size_t before_;
  std::atomic<std::size_t> most_;
  std::atomic<bool> done_ = false;
  std::thread watcher_;
};

RawPeer::Metadata greeting(const std::string& from) {
  return {{"square-version", std::to_string(kProtocolVersion)}, {"square-from", from}, {"square-to", "b"}};
}

GrpcTransportOptions small_quota() {
  GrpcTransportOptions options;
  options.memory_quota_bytes = kQuotaBytes;
  return options;
}

GrpcTransportOptions impatient() {
  GrpcTransportOptions options = small_quota();
  options.silence_deadline = 500ms;
  return options;
}

// A well-behaved link to the node under attack, with traffic all the time.
class Friend {
 public:
  explicit Friend(Node& target) : node_("friend"), target_(target), link_(node_.open("b", target)) {
    REQUIRE(node_.recorder.wait_up(link_));
    sender_ = std::thread([this] {
      while (!done_) {
        const LinkRecord record = node_.recorder.record(link_);
        if (record.down.has_value()) return;
        if (given_ - record.sent < kMaxFramesInTransport) {
          node_.transport->send(link_, block(++given_, payload_.take()));
        }
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~Friend() { finish(); }

  // Everything that it sent has arrived, and its link is up.
  [[nodiscard]] bool is_well() {
    finish();
    const auto in = target_.recorder.wait_incoming("friend");
    const bool arrived = in.has_value() && target_.recorder.wait(*in, [&](const LinkRecord& record) {
      return record.received == given_ || record.down.has_value();
    });
    return arrived && given_ > 0 && !target_.recorder.record(*in).down.has_value();
  }

 private:
  void finish() {
    done_ = true;
    if (sender_.joinable()) sender_.join();
  }

  Node node_;
  Node& target_;
  LinkHandle link_;
  CountedPayload payload_{16384};
  std::uint64_t given_ = 0;
  std::atomic<bool> done_ = false;
  std::thread sender_;
};

// How many files this process may have open, after asking for more.
rlim_t more_descriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 8192);
  setrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur;
}

void ignore_frames(Node& node) {
  node.recorder.frame_hook = [](LinkHandle, const Frame&) {};
}

}  // namespace

TEST_CASE("half-open connections and random bytes are closed, others are not") {
  Node node("b");
  ignore_frames(node);
  Friend good(node);
  std::mt19937_64 random(test_seed());
  std::vector<RawConnection> connections;
  for (int i = 0; i < 60; ++i) {
    connections.emplace_back(node.transport->address());
    const RawConnection& connection = connections.back();
    if (i % 4 == 0) continue;  // says nothing
    if (i % 4 == 1) {
      std::string bytes(1 + random() % 3000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      connection.send(bytes);
      continue;
    }
    connection.greet();
    if (i % 4 == 3) connection.call({{"square-version", "none"}});  // is refused, and stays
  }
  const auto begin = std::chrono::steady_clock::now();
  for (const RawConnection& connection : connections) {
    CHECK(connection.wait_closed(rpc::kAdmissionDeadline + kCloseTime));
  }
  MESSAGE("closed after " << (std::chrono::steady_clock::now() - begin) / 1ms << " ms");
  CHECK(good.is_well());
}

TEST_CASE("connections that open no link are closed sooner where they are a crowd") {
  if (more_descriptors() < 4 * rpc::kMaxWaiting) {
    MESSAGE("not run: too few descriptors");
    return;
  }
  Node node("b");
  ignore_frames(node);
  const std::string crowded = fmt::format("within {} ms", rpc::kCrowdedAdmissionDeadline.count());
  const Heard heard;
  std::vector<RawConnection> connections;
  for (std::size_t i = 0; i < rpc::kMaxWaiting; ++i) connections.emplace_back(node.transport->address());
  std::this_thread::sleep_for(2 * rpc::kCrowdedAdmissionDeadline);
  CHECK_FALSE(heard.has(crowded));
  connections.emplace_back(node.transport->address());
  CHECK(connections.front().wait_closed(kCloseTime));
  CHECK(heard.has(crowded));
}

TEST_CASE("a connection carries one call") {
  Node node("b");
  ignore_frames(node);
  const RawConnection connection(node.transport->address());
  connection.greet();
  connection.call(greeting("first"), 1);
  REQUIRE(node.recorder.wait_incoming("first").has_value());
  connection.call(greeting("second"), 3);
  CHECK(connection.wait_closed(kCloseTime));
  CHECK(node.recorder.link_count() == 1);
}

TEST_CASE("a message of 2 GiB is cut off within the quota") {
  Node node("b", small_quota());
  ignore_frames(node);
  Friend good(node);
  // The same memory again and again, so that only the receiver's grows.
  const std::vector<std::byte> part(16 * kMiB, std::byte{1});
  std::vector<grpc::Slice> slices;
  for (int i = 0; i < 127; ++i) slices.emplace_back(part.data(), part.size(), grpc::Slice::STATIC_SLICE);
  RawPeer peer(node.transport->address(), greeting("glutton"));
  REQUIRE(peer.was_accepted());
  const auto begin = std::chrono::steady_clock::now();
  const MemoryGrowth growth;
  peer.write(grpc::ByteBuffer(slices.data(), slices.size()));
  const auto in = node.recorder.wait_incoming("glutton");
  REQUIRE(in.has_value());
  CHECK_FALSE(node.recorder.wait_down(*in).is_ok());
  MESSAGE("closed after " << (std::chrono::steady_clock::now() - begin) / 1ms << " ms, memory grew by "
                          << growth.bytes() / kMiB << " MiB");
  CHECK(growth.bytes() <= kQuotaBytes + kQuotaBytes / 10);
  CHECK(node.recorder.record(*in).received == 0);
  CHECK(good.is_well());
}

TEST_CASE("a compressed message is refused and not unpacked") {
  Node node("b", small_quota());
  ignore_frames(node);
  Friend good(node);
  const std::vector<std::byte> zeros(256 * kMiB);
  RawPeer peer(node.transport->address(), greeting("bomber"), "/square.v1.Link/Carry", nullptr,
               GRPC_COMPRESS_GZIP);
  const MemoryGrowth growth;
  const grpc::Slice slice(zeros.data(), zeros.size(), grpc::Slice::STATIC_SLICE);
  peer.write(grpc::ByteBuffer(&slice, 1));
  const grpc::Status verdict = peer.finish();
  MESSAGE("error " << verdict.error_code() << ", " << verdict.error_message() << "; memory grew by "
                   << growth.bytes() / kMiB << " MiB");
  CHECK_FALSE(verdict.ok());
  CHECK(growth.bytes() < kQuotaBytes / 2);
  CHECK(good.is_well());
}

TEST_CASE("1,000 calls that stall in the middle of a message are closed, others are not") {
  const int calls = more_descriptors() >= 4096 ? 1000 : 200;
  Node node("b", impatient());
  ignore_frames(node);
  Friend good(node);
  const MemoryGrowth growth;
  std::vector<RawConnection> connections;
  const std::string begun(20'000, 'x');
  std::chrono::steady_clock::time_point last;
  for (int i = 0; i < calls; ++i) {
    connections.emplace_back(node.transport->address());
    connections.back().greet();
    connections.back().call(greeting("villain-" + std::to_string(i)));
    connections.back().begin_message(kMaxPayloadBytes, begun);
    last = std::chrono::steady_clock::now();
  }
  for (const RawConnection& connection : connections) CHECK(connection.wait_closed(kCloseTime));
  MESSAGE(calls << " calls, the last closed " << (std::chrono::steady_clock::now() - last) / 1ms
                << " ms after it began; memory grew by " << growth.bytes() / kMiB << " MiB");
  CHECK(growth.bytes() <= kQuotaBytes + kQuotaBytes / 10);
  CHECK(good.is_well());
}

TEST_CASE("a neighbour that stalls for 2 s in the middle of a message, or takes no answers, is waited for") {
  Node node("b", small_quota());
  ignore_frames(node);
  const RawConnection connection(node.transport->address());
  connection.greet();
  connection.call(greeting("slow"));
  const auto in = node.recorder.wait_incoming("slow");
  REQUIRE(in.has_value());
  connection.begin_message(kMaxPayloadBytes, std::string(20'000, 'x'));
  CountedPayload payload(kMiB);
  node.transport->send(*in, block(1, payload.take()));
  CHECK_FALSE(connection.wait_closed(2s));
  CHECK(node.recorder.open_links() == 1);
}

TEST_CASE("a peer that takes no answers is closed") {
  Node node("b", impatient());
  ignore_frames(node);
  Friend good(node);
  // Keeps HTTP/2's first window of 64 KiB, so more than that is never taken.
  const RawConnection connection(node.transport->address());
  connection.greet();
  connection.call(greeting("deaf"));
  const auto in = node.recorder.wait_incoming("deaf");
  REQUIRE(in.has_value());
  CountedPayload payload(kMiB);
  for (int i = 0; i < 4; ++i) node.transport->send(*in, block(1, payload.take()));
  CHECK_FALSE(node.recorder.wait_down(*in, kCloseTime).is_ok());
  CHECK(connection.wait_closed(kCloseTime));
  CHECK(good.is_well());
}
