#include "controller/grpc/doorkeeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/net/percent.h"
#include "controller/protocol.h"
#include "trust/grpc/credentials.h"

namespace square::controller {
namespace {

constexpr int kBacklog = 1024;
// Taken from one socket before others get a turn.
constexpr int kTakenAtOnce = 64;
constexpr int kEventsAtOnce = 256;
// Without a descriptor for the next connection, and no stranger to take one from.
constexpr std::chrono::milliseconds kFullPause{50};
// What may be under way and unread where there is no line: also when a connection was ended gRPC reads that.
constexpr int kNarrowWindow = static_cast<int>(Visitors::kUnexplainedBytes / 2);
constexpr int kWideWindow = 64 << 20;
// What may come there before the thread has looked at what came before.
constexpr std::uint32_t kUnseenBytes = 2 * Visitors::kUnexplainedBytes;
// A hello of more is taken before it is whole.
constexpr std::size_t kLongHello = kNarrowWindow / 2;
// Beside round trips, for a caller that does not go on where another wants its place.
constexpr std::chrono::milliseconds kPatience{50};
// Each time that something comes, or it ends.
constexpr std::uint32_t kNews = EPOLLIN | EPOLLRDHUP | EPOLLET;

// gRPC's name of a peer, "ipv4:10.0.0.1:4711", without the scheme.
std::string plain_name(std::string_view uri) {
  const std::string_view peer = uri.substr(uri.find(':') + 1);
  auto decoded = net::percent_decode(peer);
  return decoded.is_ok() ? *std::move(decoded) : std::string(peer);
}

bool lacks_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

void set_window(int socket, int bytes) {
  setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof(bytes));
}

tcp_info look_at(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info : tcp_info{};
}

// Its last answer has arrived, and nothing has come since: a caller that goes on takes a round trip.
bool is_waited_for(int socket) {
  const tcp_info info = look_at(socket);
  constexpr std::uint32_t kMicroseconds = 1000;
  const auto patience = static_cast<std::uint32_t>(kPatience.count()) + 3 * info.tcpi_rtt / kMicroseconds;
  const bool is_their_turn = info.tcpi_bytes_sent > 0 && info.tcpi_last_data_sent <= info.tcpi_last_data_recv;
  return is_their_turn && info.tcpi_unacked == 0 && info.tcpi_last_data_sent > patience;
}

// Whether it has said enough for an answer: where it speaks TLS all of its first record (RFC 8446, 5.1),
// which costs a handshake of the server.
bool has_begun(int socket) {
  constexpr std::size_t kHeader = 5;
  constexpr std::uint8_t kHandshake = 22;
  std::array<std::uint8_t, kHeader> header{};
  const ssize_t seen = recv(socket, header.data(), header.size(), MSG_PEEK | MSG_DONTWAIT);
  if (seen <= 0) return false;
  if (header[0] != kHandshake) return true;
  const std::size_t record = kHeader + 256U * header[3] + header[4];
  int there = 0;
  const bool is_whole =
      ioctl(socket, FIONREAD, &there) == 0 && static_cast<std::size_t>(there) >= std::min(record, kLongHello);
  return static_cast<std::size_t>(seen) == kHeader && is_whole;
}

// The caller's name in its certificate; empty without one.
std::string caller_of(const grpc::ServerContextBase& context) {
  const auto shown = trust::certificate_of(*context.auth_context());
  if (!shown) return {};
  return shown->name ? to_string(*shown->name) : shown->fingerprint;
}

}  // namespace

Doorkeeper::Doorkeeper(net::Listener listener)
    : listener_(std::move(listener)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      visitors_(kMaxRequestBytes) {}

Doorkeeper::~Doorkeeper() { close(); }

Result<std::unique_ptr<Doorkeeper>> Doorkeeper::listen(const net::HostPort& address,
                                                       grpc::ServerBuilder& builder,
                                                       std::shared_ptr<grpc::ServerCredentials> credentials) {
  SQUARE_ASSIGN_OR_RETURN(net::Listener listener, net::listen_on(address, kBacklog));
  std::unique_ptr<Doorkeeper> made(new Doorkeeper(std::move(listener)));
  for (const auto& socket : made->listener_.sockets) net::ReceiveBound::keep_first_segments(socket.get());
  made->handover_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
  return made;
}

void Doorkeeper::open() {
  watch(event_.get(), EPOLLIN);
  for (const auto& socket : listener_.sockets) watch(socket.get(), EPOLLIN);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "square-door");
    run();
  });
}

Status Doorkeeper::know(const grpc::ServerContextBase& context, std::uint64_t message_bytes) {
  const std::string peer = plain_name(context.peer());
  const std::string caller = caller_of(context);
  const std::lock_guard lock(mutex_);
  if (message_bytes > 0) visitors_.hear(peer, message_bytes);
  if (visitors_.know(peer, caller)) return {};
  return resource_exhausted(
      fmt::format("{} has {} connections already, as many as it may", caller, Visitors::kMaxOfCaller));
}

bool Doorkeeper::begin_line(std::string_view peer) {
  const std::string name = plain_name(peer);
  const std::lock_guard lock(mutex_);
  const auto socket = visitors_.find_key(name);
  const bool may_begin = visitors_.begin_line(name);
  if (socket && may_begin) {
    set_window(*socket, kWideWindow);
    connections_.at(*socket).bound.lift(*socket);
  }
  if (socket && !may_begin) turn_away(*socket, "it opens line after line");
  return may_begin;
}

void Doorkeeper::hear(std::string_view peer, std::uint64_t message_bytes) {
  const std::lock_guard lock(mutex_);
  visitors_.hear(plain_name(peer), message_bytes);
}

void Doorkeeper::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  eventfd_write(event_.get(), 1);
  if (thread_.joinable()) thread_.join();
  listener_.sockets.clear();
  // gRPC serves on for a while, with descriptors of its own.
  const std::lock_guard lock(mutex_);
  for (const auto& [socket, connection] : connections_) visitors_.leave(socket);
  connections_.clear();
}

std::size_t Doorkeeper::strangers() const {
  const std::lock_guard lock(mutex_);
  return visitors_.strangers();
}

void Doorkeeper::watch(int socket, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = socket;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event);
}

int Doorkeeper::wait_ms() const {
  const auto next = visitors_.next_late();
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

void Doorkeeper::run() {
  std::array<epoll_event, kEventsAtOnce> events{};
  for (;;) {
    int wait = -1;
    {
      const std::lock_guard lock(mutex_);
      if (is_closing_) return;
      wait = wait_ms();
    }
    const int count = epoll_wait(epoll_.get(), events.data(), kEventsAtOnce, wait);
    std::vector<int> listening;
    {
      const std::lock_guard lock(mutex_);
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        const bool listens = std::ranges::find(listener_.sockets, event.data.fd, &net::FileDescriptor::get) !=
                             listener_.sockets.end();
        listens ? listening.push_back(event.data.fd) : on_event(event.data.fd, event.events);
      }
      turn_away_late();
    }
    hand_over_all();
    for (const int socket : listening) take(socket);
  }
}

// With mutex_ held, as all below but hand_over_all() and take().
void Doorkeeper::on_event(int socket, std::uint32_t events) {
  const auto found = connections_.find(socket);
  if (found == connections_.end()) return;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    // By either end: also where a caller did not speak TLS, or was not believed.
    if (!visitors_.is_known(socket))
      tell(visitors_.peer(socket), "it has ended, and no call that was let in has come over it");
    return forget(socket);
  }
  const std::uint64_t received = look_at(socket).tcpi_bytes_received;
  if (visitors_.exceeds(socket, received, std::chrono::steady_clock::now()))
    return turn_away(socket, "it sends much that is no message");
  found->second.bound.let_come(socket, received, kUnseenBytes);
  if (!visitors_.is_silent(socket) || !has_begun(socket)) return;
  if (const auto other = visitors_.speak(socket, std::chrono::steady_clock::now(), is_waited_for))
    turn_away(*other, "there are many strangers");
  if (connections_.contains(socket)) hand_over_later(socket, found->second);
}

void Doorkeeper::hand_over_later(int socket, const Connection& connection) {
  int given = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (const auto other = visitors_.most_dispensable(); given < 0 && other && *other != socket) {
    turn_away(*other, "descriptors are short");
    given = fcntl(socket, F_DUPFD_CLOEXEC, 0);
  }
  if (given < 0) return turn_away(socket, "descriptors are short");
  Handover::NewConnectionParameters parameters;
  parameters.listener_fd = connection.listening;
  parameters.fd = given;
  spoken_.push_back(parameters);
}

// Without mutex_: gRPC may call the service before it returns.
void Doorkeeper::hand_over_all() {
  for (auto& parameters : std::exchange(spoken_, {})) handover_->HandleNewConnection(&parameters);
}

void Doorkeeper::take(int listening) {
  for (int i = 0; i < kTakenAtOnce; ++i) {
    const auto from = std::ranges::find(listener_.sockets, listening, &net::FileDescriptor::get);
    net::FileDescriptor accepted = net::accept_from(*from);
    const int error = errno;
    std::unique_lock lock(mutex_);
    if (accepted) {
      admit(std::move(accepted), listening);
      continue;
    }
    if (!lacks_descriptors(error)) return;
    if (const auto other = visitors_.most_dispensable()) {
      turn_away(*other, "descriptors are short");
      continue;
    }
    lock.unlock();
    log(LogLevel::kWarning, "controller", "cannot take another connection: {}", net::describe_errno(error));
    std::this_thread::sleep_for(kFullPause);
    return;
  }
}

void Doorkeeper::admit(net::FileDescriptor accepted, int listening) {
  const int socket = accepted.get();
  const auto other = visitors_.come(socket, net::peer_of(socket), std::chrono::steady_clock::now());
  Connection& connection = connections_[socket];
  connection = {std::move(accepted), listening, net::ReceiveBound(socket)};
  connection.bound.let_come(socket, 0, kUnseenBytes);
  set_window(socket, kNarrowWindow);
  watch(socket, kNews);
  if (other) turn_away(*other, "there are many that say nothing");
}

// gRPC finds it closed by its peer.
void Doorkeeper::turn_away(int socket, std::string_view why) {
  tell(visitors_.peer(socket), why);
  shutdown(socket, SHUT_RDWR);
  forget(socket);
}

void Doorkeeper::turn_away_late() {
  for (const int socket : visitors_.late(std::chrono::steady_clock::now()))
    turn_away(socket, "no call that was let in has come over it");
}

// gRPC's duplicate would keep it among the watched.
void Doorkeeper::forget(int socket) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  visitors_.leave(socket);
  connections_.erase(socket);
}

void Doorkeeper::tell(const std::string& peer, std::string_view what) {
  log_seldom(seldom_, net::host_part(peer), {.component = "controller"}, "a connection from {}: {}", peer,
             what);
}

}  // namespace square::controller
