#include "transport/grpc/acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/net/address.h"
#include "base/net/percent.h"
#include "transport/grpc/channel_settings.h"
#include "transport/grpc/handshake.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kEventsAtOnce = 64;
// Connections taken from one listening socket before others get a turn.
constexpr int kAcceptsAtOnce = 64;

void watch(int epoll, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// How gRPC names the other end of a call, without the scheme.
std::string peer_of_call(std::string_view uri) {
  const std::string_view peer = uri.substr(uri.find(':') + 1);
  auto decoded = net::percent_decode(peer);
  return decoded.is_ok() ? *std::move(decoded) : std::string(peer);
}

}  // namespace

Acceptor::Acceptor(net::Listener listener, std::size_t memory_quota_bytes, Duration silence_deadline)
    : listener_(std::move(listener)),
      unframed_limit_bytes_(memory_quota_bytes / kUnframedQuotaPart),
      bounds_{max_unframed_bytes(memory_quota_bytes), silence_deadline},
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      told_event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Acceptor::~Acceptor() {
  stop();
  close(epoll_);
  close(told_event_);
}

void Acceptor::start(std::unique_ptr<Handover> handover) {
  handover_ = std::move(handover);
  watch(epoll_, told_event_, EPOLLIN);
  for (const auto& socket : listener_.sockets) watch(epoll_, socket.get(), EPOLLIN);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "square-accept");
    run();
  });
}

void Acceptor::stop_accepting() {
  const std::lock_guard lock(accept_mutex_);
  is_accepting_ = false;
  for (const auto& socket : listener_.sockets) {
    epoll_ctl(epoll_, EPOLL_CTL_DEL, socket.get(), nullptr);
    shutdown(socket.get(), SHUT_RDWR);
  }
}

void Acceptor::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  tell();
  thread_.join();
  connections_.clear();
}

void Acceptor::part(net::FileDescriptor socket) {
  {
    const std::lock_guard lock(mutex_);
    parting_.push_back(std::move(socket));
  }
  tell();
}

void Acceptor::tell() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(told_event_, &one, sizeof(one));
}

// False if it is to stop.
bool Acceptor::on_told() {
  std::uint64_t times = 0;
  [[maybe_unused]] const ssize_t got = read(told_event_, &times, sizeof(times));
  std::vector<net::FileDescriptor> parting;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return false;
    parting.swap(parting_);
  }
  const Time now = Clock::now();
  for (auto& socket : parting) {
    const std::string peer = net::peer_of(socket.get());
    auto connection = std::make_shared<Connection>(socket.release(), peer, bounds_, now);
    connection->end_call();
    keep(connection, now);
  }
  return true;
}

std::shared_ptr<Connection> Acceptor::find(std::string_view peer_uri) {
  const std::lock_guard lock(mutex_);
  const auto found = by_peer_.find(peer_of_call(peer_uri));
  return found == by_peer_.end() ? nullptr : found->second.lock();
}

void Acceptor::run() {
  std::array<epoll_event, kEventsAtOnce> events{};
  while (true) {
    const int count = epoll_wait(epoll_, events.data(), kEventsAtOnce, wait_ms(Clock::now()));
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == told_event_) {
        if (!on_told()) return;
      } else if (std::ranges::find(listener_.sockets, fd, &net::FileDescriptor::get) !=
                 listener_.sockets.end()) {
        accept_all(fd);
      } else {
        forget(fd);  // closed by either side: gRPC has seen it too
      }
    }
    const Time now = Clock::now();
    if (connections_.empty() || now < inspect_at_) continue;
    inspect_some(now);
    shed(now);
  }
}

int Acceptor::wait_ms(Time now) {
  if (connections_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(inspect_at_ - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kQuietInspectionInterval.count()));
}

void Acceptor::accept_all(int listening) {
  const std::lock_guard lock(accept_mutex_);
  if (!is_accepting_) return;
  const Time now = Clock::now();
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int accepted = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
      take(listening, accepted, now);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      log(LogLevel::kWarning, "transport", "cannot take another connection: {}", std::strerror(errno));
      std::this_thread::sleep_for(kInspectionInterval);  // others may be closed meanwhile
    }
    return;
  }
}

void Acceptor::take(int listening, int accepted, Time now) {
  const std::string peer = net::peer_of(accepted);
  const bool has_room = connections_.size() < kMaxConnections;
  const int own = has_room && !peer.empty() ? fcntl(accepted, F_DUPFD_CLOEXEC, 0) : -1;
  if (own < 0) {
    close(accepted);
    if (!has_room) {
      log_seldom(seldom_, net::host_part(peer), {.component = "transport"},
                 "refused a connection from {}: there are {}", peer, kMaxConnections);
    }
    return;
  }
  configure_socket(accepted, bounds_.silence_deadline);
  auto connection = std::make_shared<Connection>(own, peer, bounds_, now);
  {
    const std::lock_guard lock(mutex_);
    by_peer_[peer] = connection;
  }
  keep(connection, now);
  Handover::NewConnectionParameters parameters;
  parameters.listener_fd = listening;
  parameters.fd = accepted;
  handover_->HandleNewConnection(&parameters);
}

void Acceptor::keep(const std::shared_ptr<Connection>& connection, Time now) {
  if (connections_.empty()) inspect_at_ = now + kInspectionInterval;
  connections_[connection->fd()] = connection;
  watch(epoll_, connection->fd(), EPOLLRDHUP);
  is_quiet_ = false;
}

void Acceptor::forget(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  {
    const std::lock_guard lock(mutex_);
    const auto named = by_peer_.find(found->second->peer());
    // The same port may have connected again.
    if (named != by_peer_.end() && named->second.lock() == found->second) by_peer_.erase(named);
  }
  connections_.erase(found);
}

void Acceptor::inspect_some(Time now) {
  if (round_.empty()) {
    is_quiet_ = true;
    for (const auto& [fd, connection] : connections_) round_.push_back(fd);
    const auto waiting =
        std::ranges::count_if(connections_, [](const auto& entry) { return entry.second->waits(); });
    patience_ =
        static_cast<std::size_t>(waiting) > kMaxWaiting ? kCrowdedAdmissionDeadline : kAdmissionDeadline;
  }
  for (std::size_t i = 0; i < kMaxInspections && !round_.empty(); ++i) {
    const auto found = connections_.find(round_.back());
    round_.pop_back();
    if (found == connections_.end()) continue;
    Connection& connection = *found->second;
    if (const auto why = connection.inspect(now, patience_)) shut(connection, *why);
    is_quiet_ = is_quiet_ && connection.is_quiet();
  }
  const bool may_rest = is_quiet_ && round_.empty();
  inspect_at_ = now + (may_rest ? kQuietInspectionInterval : kInspectionInterval);
}

void Acceptor::shed(Time now) {
  std::uint64_t unframed = 0;
  for (const auto& [fd, connection] : connections_) unframed += connection->unframed_bytes();
  if (unframed <= unframed_limit_bytes_) return;
  std::vector<Connection*> slowest;
  for (const auto& [fd, connection] : connections_) {
    if (connection->unframed_bytes() > 0) slowest.push_back(connection.get());
  }
  std::ranges::sort(slowest, {}, &Connection::last_message_at);
  for (Connection* connection : slowest) {
    if (unframed <= unframed_limit_bytes_) break;
    unframed -= connection->unframed_bytes();
    const auto still =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - connection->last_message_at());
    shut(*connection,
         fmt::format("incomplete messages take more than {} bytes, and it completed none for {} ms",
                     unframed_limit_bytes_, still.count()));
  }
}

void Acceptor::shut(Connection& connection, const std::string& why) {
  if (!connection.shut()) return;
  log_seldom(seldom_, net::host_part(connection.peer()), {.component = "transport"},
             "closed the connection with {}: {}", connection.peer(), why);
}

}  // namespace square::rpc
