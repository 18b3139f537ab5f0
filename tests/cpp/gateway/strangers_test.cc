// What processes can do to a gateway before it knows them, and with what they send and leave behind.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "gateway/descriptors.h"
#include "gateway/handshakes.h"
#include "gateway/liar.h"
#include "gateway/site.h"

using namespace square;
using namespace square::gateway;
using testing::ChildProcess;
using testing::join;
using testing::kLimit;
using testing::open_descriptors;
using testing::report;
using testing::send_with;
using testing::Site;
using testing::variable;

namespace {

// A connection whose close() waits for ten seconds, for its peer reads nothing.
class LingeringConnection {
 public:
  LingeringConnection() {
    const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener.get(), at, size) == 0);
    REQUIRE(listen(listener.get(), 1) == 0);
    REQUIRE(getsockname(listener.get(), at, &size) == 0);
    own_ = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(connect(own_.get(), at, size) == 0);
    peer_ = FileDescriptor(accept(listener.get(), nullptr, nullptr));
    const std::vector<char> much(std::size_t{1} << 20U);
    while (send(own_.get(), much.data(), much.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    const linger ten_seconds{1, 10};
    REQUIRE(setsockopt(own_.get(), SOL_SOCKET, SO_LINGER, &ten_seconds, sizeof ten_seconds) == 0);
  }
  // To be given away. This process keeps none.
  [[nodiscard]] FileDescriptor take() { return std::move(own_); }

 private:
  FileDescriptor own_;
  FileDescriptor peer_;
};

// A Unix socket with `inner` in its queue.
FileDescriptor socket_around(FileDescriptor inner) {
  std::array<int, 2> ends{};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const FileDescriptor sender(ends[0]);
  FileDescriptor outer(ends[1]);
  const std::byte one{};
  REQUIRE(send_with(sender, {&one, 1}, {inner.get()}) == 1);
  return outer;
}

// A Unix socket that listens, with a connection in its queue that `inner` has been sent over.
FileDescriptor listener_before(FileDescriptor inner) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(listener.get(), at, sizeof address.sun_family) == 0);  // the kernel finds a name
  REQUIRE(listen(listener.get(), 1) == 0);
  socklen_t size = sizeof address;
  REQUIRE(getsockname(listener.get(), at, &size) == 0);
  const FileDescriptor sender(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(sender.get(), at, size) == 0);
  const std::byte one{};
  REQUIRE(send_with(sender, {&one, 1}, {inner.get()}) == 1);
  return listener;
}

// How a process would send a descriptor that a gateway has not asked for.
enum class Way { kFirst, kUnread, kOutOfBand, kNested };

void send_descriptor(const FileDescriptor& to, Way way, FileDescriptor descriptor) {
  const std::vector<std::byte> nonsense(32, std::byte{'x'});
  const std::span<const std::byte> one = std::span(nonsense).first(1);
  if (way == Way::kNested) descriptor = socket_around(std::move(descriptor));
  // The gateway ends the connection here, and does not read what comes behind.
  if (way == Way::kUnread) send_with(to, nonsense, {});
  send_with(to, one, {descriptor.get()}, way == Way::kOutOfBand ? MSG_OOB : 0);
  send_with(to, nonsense, {});
}

}  // namespace

TEST_CASE("a process that is not known cannot make a gateway wait for descriptors that it sends") {
  const Site site;
  const std::string address = site.gateways[0]->socket_path();
  std::vector<LingeringConnection> lingering(8);
  std::vector<FileDescriptor> strangers;
  for (std::size_t i = 0; i < lingering.size(); ++i) {
    strangers.push_back(connect_local(address, kLimit).value());
    send_descriptor(strangers.back(), static_cast<Way>(i % 4), lingering[i].take());
  }
  for (const bool is_ended : {false, true}) {
    if (is_ended) strangers.clear();
    const auto attached =
        AttachedNode::attach({.socket_path = address, .timeout = std::chrono::milliseconds(2'500)});
    CHECK_MESSAGE(attached.is_ok(), attached.status().to_string());
  }
  const auto begun = std::chrono::steady_clock::now();
  site.gateways[0]->stop();
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(5));
}

TEST_CASE("a closer takes what it cannot close, and says when that is too much") {
  Closer none(0);
  for (std::size_t i = 0; i < kMaxUnclosed; ++i) {
    CHECK(none.has_room());
    none.close(FileDescriptor());
  }
  CHECK_FALSE(none.has_room());
}

TEST_CASE("a closer waits for no connection, wherever it lies") {
  std::vector<LingeringConnection> lingering(3 * kMaxClosers);
  Closer closer;
  const std::ptrdiff_t before = open_descriptors();
  for (std::size_t i = 0; i < lingering.size(); ++i) {
    FileDescriptor one = lingering[i].take();
    if (i % 3 == 1) one = socket_around(socket_around(std::move(one)));
    if (i % 3 == 2) one = listener_before(std::move(one));
    closer.close(std::move(one));
  }
  const std::ptrdiff_t after = before - static_cast<std::ptrdiff_t>(lingering.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (open_descriptors() > after && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(open_descriptors() <= after);
  CHECK(closer.has_room());
}

TEST_CASE("a process and its gateway speak the lower of their newest versions") {
  const Site site;
  const std::string gateway = site.gateways[0]->socket_path();
  CHECK(Liar(gateway, {kOldestGatewayProtocol, 0}).version == kOldestGatewayProtocol);
  CHECK(Liar(gateway, {kGatewayProtocolVersion, kGatewayProtocolVersion + 1}).version ==
        kGatewayProtocolVersion);
}

TEST_CASE("connections that are being refused count among those whose process is not known") {
  const Site site;
  v1::GatewayHello hello;
  hello.set_protocol_version(kGatewayProtocolVersion + 1);
  const std::string body = body_of(hello);
  const auto bytes = std::as_bytes(std::span(body));
  const HeaderBytes header =
      encode_header({MessageType::kHello, 0, 0, static_cast<std::uint32_t>(body.size())}, bytes);
  std::vector<std::byte> all(header.begin(), header.end());
  all.insert(all.end(), bytes.begin(), bytes.end());
  const std::ptrdiff_t before = open_descriptors();
  std::vector<FileDescriptor> refused;
  constexpr std::ptrdiff_t kConnections = 350;
  for (std::ptrdiff_t i = 0; i < kConnections; ++i) {
    refused.push_back(connect_local(site.gateways[0]->socket_path(), kLimit).value());
    send_with(refused.back(), all, {});
  }
  // The gateway has accepted those before.
  const auto attached = site.attach(0);
  CHECK(open_descriptors() - before - kConnections < static_cast<std::ptrdiff_t>(kMaxHandshakes) + 20);
}

TEST_CASE("the oldest connection of the user with the most makes room") {
  Handshakes handshakes;
  for (AttachmentId id = 1; id < kMaxHandshakes; ++id) handshakes.add(7, id);
  handshakes.add(8, kMaxHandshakes);
  CHECK_FALSE(handshakes.take_one_too_many());
  handshakes.add(8, kMaxHandshakes + 1);
  CHECK(handshakes.take_one_too_many() == AttachmentId(1));
  CHECK_FALSE(handshakes.take_one_too_many());
  handshakes.remove(7, 1);  // counts no more
  handshakes.remove(7, 2);
  handshakes.add(8, kMaxHandshakes + 2);
  CHECK_FALSE(handshakes.take_one_too_many());
}

TEST_CASE("process that forks" * doctest::skip()) {
  const auto attached = AttachedNode::attach({.socket_path = variable("SQUARE_TEST_GATEWAY")});
  if (!attached.is_ok()) return report(attached.status().to_string());
  const auto member = join(**attached, {"g", "alice", {"a", "a"}, {{}}}, 1);
  const pid_t child = fork();
  if (child == 0) {
    sleep(30);
    _exit(0);
  }
  report(std::to_string(child));
  std::this_thread::sleep_for(std::chrono::minutes(5));
}

TEST_CASE("a process that is killed is gone at once, also where its child keeps the connection") {
  const Site site;
  const auto attached = site.attach(0);
  const auto member = join(*attached, {"g", "alice", {"a", "a"}, {{}}}, 0);
  const auto forks = site.member("alice", "aa", 1, "", false, "process that forks");
  const pid_t child = std::stoi(forks->line());
  std::vector<std::byte> buffer(1000);
  const auto work = *member->broadcast_async(buffer, Rank(1), kLimit);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(100)));
  forks->signal(SIGKILL);
  // The lease, after which silence tells, is ten seconds.
  CHECK(work->wait_for(std::chrono::seconds(5)));
  kill(child, SIGKILL);
  const Status cause = work->wait();
  CHECK(cause.code() == StatusCode::kUnavailable);
  CHECK_MESSAGE(testing::has(cause, "the process has ended"), cause.to_string());
}
