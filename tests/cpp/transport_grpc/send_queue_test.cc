// How much a connection holds, over a real one that the kernel slows down.
#include "transport/grpc/send_queue.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "recorder.h"
#include "transport/capacity_meter.h"
#include "transport/link_watch.h"
#include "transport/pacing/wire_cost.h"

using namespace square;
using namespace square::rpc;
using namespace std::chrono_literals;

namespace {

// Bytes a second.
constexpr unsigned kRate = 5'000'000;
constexpr int kSegmentBytes = 1448;
constexpr std::size_t kMessageBytes = 50'000;

// Two ends of a connection on this machine that carries kRate; what comes is read and forgotten.
class SlowConnection {
 public:
  SlowConnection() : tail(socket(AF_INET, SOCK_STREAM, 0)) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    REQUIRE(bind(listener, generic, size) == 0);
    REQUIRE(listen(listener, 1) == 0);
    REQUIRE(getsockname(listener, generic, &size) == 0);
    setsockopt(tail, IPPROTO_TCP, TCP_MAXSEG, &kSegmentBytes, sizeof(kSegmentBytes));
    setsockopt(tail, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    REQUIRE(setsockopt(tail, SOL_SOCKET, SO_MAX_PACING_RATE, &kRate, sizeof(kRate)) == 0);
    REQUIRE(connect(tail, generic, size) == 0);
    head_ = accept(listener, nullptr, nullptr);
    REQUIRE(head_ >= 0);
    close(listener);
    reader_ = std::thread([this] {
      std::vector<char> bytes(1 << 20);
      while (recv(head_, bytes.data(), bytes.size(), 0) > 0) {
      }
    });
  }
  ~SlowConnection() {
    shutdown(tail, SHUT_RDWR);
    reader_.join();
    close(tail);
    close(head_);
  }

  // And not on its way.
  [[nodiscard]] std::size_t queued() const {
    int bytes = 0;
    REQUIRE(ioctl(tail, SIOCOUTQNSD, &bytes) == 0);
    return static_cast<std::size_t>(bytes);
  }
  void write(std::size_t bytes) const {
    const std::vector<char> data(bytes);
    REQUIRE(send(tail, data.data(), bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
  }

  const int tail;

 private:
  int head_ = -1;
  std::thread reader_;
};

// A sender that has always more.
struct Sender {
  explicit Sender(const std::shared_ptr<LinkQueue>& link = std::make_shared<LinkQueue>()) {
    queue.begin(connection.tail, link);
  }

  // What there is room for, or the wait.
  void step() {
    const std::size_t room = queue.room(steady_clock().now());
    if (room == 0) return std::this_thread::sleep_for(queue.wait());
    const std::size_t message = std::min(room, kMessageBytes);
    queue.note_written(message, steady_clock().now());
    connection.write(stream_bytes_of_message(message));
    most_queued = std::max(most_queued, connection.queued());
  }

  SlowConnection connection;
  SendQueue queue;
  std::size_t most_queued = 0;
};

}  // namespace

TEST_CASE("a connection holds no more than a fifth of a second of what it carries") {
  Sender sender;
  const auto end = std::chrono::steady_clock::now() + 1s;
  while (std::chrono::steady_clock::now() < end) sender.step();
  CAPTURE(sender.most_queued);
  CHECK(sender.most_queued < 1.25 * kRate / 5 + kMinSendQueueBytes + kMessageBytes);
}

TEST_CASE("two connections of one link hold little more than one, though each remembers what it carried") {
  const auto link = std::make_shared<LinkQueue>();
  std::array<Sender, 2> senders{Sender(link), Sender(link)};
  for (Sender& alone : senders) {
    const auto end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) alone.step();
  }
  std::this_thread::sleep_for(2 * kCarriedTime);
  std::array<std::size_t, 2> held{};
  for (std::size_t i = 0; i < senders.size(); ++i) {
    SendQueue& queue = senders[i].queue;
    while (const std::size_t room = queue.room(steady_clock().now())) {
      queue.note_written(room, steady_clock().now());
      held[i] += room;
    }
  }
  const double most = kRate * to_seconds(kSendQueueTime);
  CAPTURE(held[1]);
  CHECK(held[0] > most / 2);
  CHECK(held[1] > 0);
  CHECK(held[0] + held[1] < 1.6 * most + 2 * kMinSendQueueBytes);
}

TEST_CASE("a connection that is kept full tells what it carries") {
  Sender sender;
  CapacityMeter meter;
  const auto give_up = std::chrono::steady_clock::now() + square::testing::kPatience;
  auto next = std::chrono::steady_clock::now();
  bool is_right = false;
  while (!is_right && std::chrono::steady_clock::now() < give_up) {
    sender.step();
    const TimePoint now = steady_clock().now();
    if (std::chrono::steady_clock::now() < next) continue;
    next = std::chrono::steady_clock::now() + kWatchInterval;
    const SocketFigures figures = sender.queue.figures(now);
    const auto bps =
        meter.add({now, stream_bits(figures.delivered_bytes), figures.round_trip, figures.is_limited});
    is_right = bps && *bps > 0.9 * 8 * kRate && *bps < 1.1 * 8 * kRate;
  }
  CHECK(is_right);
}

TEST_CASE("one that is not kept full, or whose peer does not read, is not limited by the network") {
  Sender sender;
  sender.step();
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(sender.queue.figures(steady_clock().now()).is_limited);
  sender.queue.note_written(10, steady_clock().now());
  CHECK_FALSE(sender.queue.figures(steady_clock().now()).is_limited);
}

TEST_CASE("what was counted and never came to the kernel does not keep a connection shut") {
  Sender sender;
  sender.queue.note_written(100'000'000, steady_clock().now());
  CHECK(sender.queue.room(steady_clock().now()) == 0);
  const auto give_up = std::chrono::steady_clock::now() + square::testing::kPatience;
  while (sender.queue.room(steady_clock().now()) == 0 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(sender.queue.wait());
  CHECK(sender.queue.room(steady_clock().now()) > 0);
}

TEST_CASE("a connection whose kernel counts nothing is not held back") {
  const int unconnected = socket(AF_INET, SOCK_STREAM, 0);
  SendQueue queue;
  queue.begin(unconnected, std::make_shared<LinkQueue>());
  queue.note_written(100'000'000, steady_clock().now());
  CHECK(queue.room(steady_clock().now()) > kMinSendQueueBytes);
  close(unconnected);
}
