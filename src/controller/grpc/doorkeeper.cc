#include "controller/grpc/doorkeeper.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/net/address.h"
#include "base/net/percent.h"

namespace square::controller {
namespace {

constexpr int kBacklog = 1024;
// Taken from one socket before others get a turn.
constexpr int kTakenAtOnce = 64;
// Without a descriptor for the next connection, and no stranger to take one from.
constexpr std::chrono::milliseconds kFullPause{50};

// gRPC's name of a peer, "ipv4:10.0.0.1:4711", without the scheme.
std::string plain_name(std::string_view uri) {
  const std::string_view peer = uri.substr(uri.find(':') + 1);
  auto decoded = net::percent_decode(peer);
  return decoded.is_ok() ? *std::move(decoded) : std::string(peer);
}

bool lacks_descriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace

Doorkeeper::Doorkeeper(net::Listener listener)
    : listener_(std::move(listener)), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Doorkeeper::~Doorkeeper() { close(); }

Result<std::unique_ptr<Doorkeeper>> Doorkeeper::listen(const net::HostPort& address,
                                                       grpc::ServerBuilder& builder,
                                                       std::shared_ptr<grpc::ServerCredentials> credentials) {
  SQUARE_ASSIGN_OR_RETURN(net::Listener listener, net::listen_on(address, kBacklog));
  std::unique_ptr<Doorkeeper> made(new Doorkeeper(std::move(listener)));
  made->handover_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
  return made;
}

void Doorkeeper::open() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "square-door");
    run();
  });
}

void Doorkeeper::know(std::string_view peer) {
  const std::string name = plain_name(peer);
  const std::lock_guard lock(mutex_);
  std::erase_if(strangers_, [&](const Stranger& one) { return one.peer == name; });
}

void Doorkeeper::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  eventfd_write(event_.get(), 1);
  if (thread_.joinable()) thread_.join();
  listener_.sockets.clear();
}

std::size_t Doorkeeper::strangers() const {
  const std::lock_guard lock(mutex_);
  return strangers_.size();
}

int Doorkeeper::wait_ms() const {
  if (strangers_.empty()) return -1;
  const auto left = strangers_.front().since + kStrangerTime - std::chrono::steady_clock::now();
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

void Doorkeeper::run() {
  std::vector<pollfd> watched;
  for (;;) {
    int wait = -1;
    watched.assign(1, {event_.get(), POLLIN, 0});
    for (const auto& socket : listener_.sockets) watched.push_back({socket.get(), POLLIN, 0});
    {
      const std::lock_guard lock(mutex_);
      if (is_closing_) return;
      wait = wait_ms();
      for (const Stranger& one : strangers_) watched.push_back({one.socket.get(), POLLRDHUP, 0});
    }
    poll(watched.data(), watched.size(), wait);
    note_gone(watched);
    turn_away_late();
    for (std::size_t i = 0; i < listener_.sockets.size(); ++i) {
      if (watched[i + 1].revents != 0) take(listener_.sockets[i]);
    }
  }
}

void Doorkeeper::take(const net::FileDescriptor& listening) {
  for (int i = 0; i < kTakenAtOnce; ++i) {
    net::FileDescriptor accepted = net::accept_from(listening);
    const int error = errno;
    net::FileDescriptor own(accepted ? fcntl(accepted.get(), F_DUPFD_CLOEXEC, 0) : -1);
    if (!own) {
      if (!accepted && !lacks_descriptors(error)) return;
      std::unique_lock lock(mutex_);
      if (!strangers_.empty()) {
        turn_away_oldest("descriptors are short");
        continue;
      }
      lock.unlock();
      log(LogLevel::kWarning, "controller", "cannot take another connection: {}", net::describe_errno(error));
      std::this_thread::sleep_for(kFullPause);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (strangers_.size() >= kMaxStrangers) turn_away_oldest("there are many that say nothing");
      strangers_.push_back({std::move(own), net::peer_of(accepted.get()), std::chrono::steady_clock::now()});
    }
    Handover::NewConnectionParameters parameters;
    parameters.listener_fd = listening.get();
    parameters.fd = accepted.release();
    handover_->HandleNewConnection(&parameters);
  }
}

// With mutex_ held. gRPC finds it closed by its peer.
void Doorkeeper::turn_away_oldest(std::string_view why) {
  tell(strangers_.front().peer, why);
  shutdown(strangers_.front().socket.get(), SHUT_RDWR);
  strangers_.pop_front();
}

// Closed by either end: who did not speak TLS, or was not believed. Its place in `watched` may be another's
// by now, so it is looked for by its descriptor.
void Doorkeeper::note_gone(const std::vector<pollfd>& watched) {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = listener_.sockets.size() + 1; i < watched.size(); ++i) {
    if (watched[i].revents == 0) continue;
    const auto gone = std::ranges::find_if(
        strangers_, [&](const Stranger& one) { return one.socket.get() == watched[i].fd; });
    if (gone == strangers_.end()) continue;
    tell(gone->peer, "it has ended, and no call that was let in has come over it");
    strangers_.erase(gone);
  }
}

void Doorkeeper::tell(const std::string& peer, std::string_view what) {
  log_seldom(seldom_, net::host_part(peer), {.component = "controller"}, "a connection from {}: {}", peer,
             what);
}

void Doorkeeper::turn_away_late() {
  const std::lock_guard lock(mutex_);
  const Time now = std::chrono::steady_clock::now();
  while (!strangers_.empty() && now - strangers_.front().since >= kStrangerTime) {
    turn_away_oldest("no call that was let in has come over it");
  }
}

}  // namespace square::controller
