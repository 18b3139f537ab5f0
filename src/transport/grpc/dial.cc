#include "transport/grpc/dial.h"

#include <fmt/format.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/net/socket.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

// Sockets of attempts that were given up are closed after so long at the latest.
constexpr std::chrono::milliseconds kSweepInterval{200};

std::atomic<int> name_dials = 0;

void dial_by_name(const net::HostPort& address, const std::shared_ptr<Dial>& dial) {
  if (++name_dials > kMaxNameDials) {
    --name_dials;
    return dial->finish(unavailable("too many other names are being looked up"));
  }
  std::thread([dial, address] {
    pthread_setname_np(pthread_self(), "square-name");
    dial->finish(net::connect_to(address, kConnectDeadline));
    --name_dials;
  }).detach();
}

int error_of(const net::FileDescriptor& socket) {
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

void Dial::give_up() { finish(cancelled("the link was closed before it was up")); }

bool Dial::is_over() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

void Dial::finish(Result<net::FileDescriptor> outcome) {
  const std::lock_guard lock(mutex_);
  if (outcome_.has_value()) return;
  outcome_ = std::move(outcome);
  alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_MONOTONIC), tag_);
}

Result<net::FileDescriptor> Dial::take() {
  const std::lock_guard lock(mutex_);
  return *std::move(outcome_);
}

Dialler::Dialler() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Dialler::~Dialler() {
  {
    const std::lock_guard lock(mutex_);
    is_going_ = true;
  }
  eventfd_write(event_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Dial> Dialler::dial(const std::string& address, grpc::CompletionQueue& queue, void* tag) {
  auto dial = std::make_shared<Dial>(queue, tag);
  const auto to = net::parse_host_port(address);
  if (!to.is_ok()) {
    dial->finish(unavailable(to.status().message()));
    return dial;
  }
  auto socket = net::begin_connect(*to);
  if (!socket.is_ok()) {
    if (socket.status().code() == StatusCode::kInvalidArgument) {
      dial_by_name(*to, dial);
    } else {
      dial->finish(socket.status());
    }
    return dial;
  }
  const std::lock_guard lock(mutex_);
  begun_.push_back({*to, *std::move(socket), dial});
  if (!thread_.joinable()) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "square-dial");
      run();
    });
  }
  eventfd_write(event_.get(), 1);
  return dial;
}

bool Dialler::gather() {
  std::uint64_t times = 0;
  eventfd_read(event_.get(), &times);
  const std::lock_guard lock(mutex_);
  for (Waiting& begun : begun_) waiting_.push_back(std::move(begun));
  begun_.clear();
  return !is_going_;
}

void Dialler::run() {
  std::vector<pollfd> watched;
  while (gather()) {
    watched.assign(1, {event_.get(), POLLIN, 0});
    for (const Waiting& waiting : waiting_) watched.push_back({waiting.socket.get(), POLLOUT, 0});
    // Without the event, for lack of descriptors, nothing else wakes this.
    const bool sleeps = waiting_.empty() && event_;
    poll(watched.data(), watched.size(), sleeps ? -1 : static_cast<int>(kSweepInterval.count()));
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (watched[i + 1].revents == 0) continue;
      Waiting& waiting = waiting_[i];
      const int error = error_of(waiting.socket);
      if (error == 0) {
        waiting.dial->finish(std::move(waiting.socket));
      } else {
        waiting.dial->finish(unavailable(fmt::format("nobody answers at {}: {}", waiting.address.to_string(),
                                                     net::describe_errno(error))));
      }
    }
    std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.dial->is_over(); });
  }
}

}  // namespace square::rpc
