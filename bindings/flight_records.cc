#include "flight_records.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

namespace square::python {
namespace {

constexpr int kSignal = SIGUSR2;

std::atomic<FlightRecords*> current_records = nullptr;
// What the handler writes to, in the process that listens there: a forked child has the pipe and no thread.
std::atomic<int> signal_pipe = -1;
std::atomic<pid_t> signal_owner = 0;

void on_signal(int /*signal*/) {
  const int error = errno;
  const char byte = 0;
  if (getpid() == signal_owner) static_cast<void>(!write(signal_pipe, &byte, 1));
  errno = error;
}

}  // namespace

FlightRecords& FlightRecords::instance() {
  static const int watches_forks = [] {
    current_records = new FlightRecords;
    return pthread_atfork(nullptr, nullptr, [] { current_records = new FlightRecords; });
  }();
  static_cast<void>(watches_forks);
  return *current_records;
}

std::shared_ptr<void> FlightRecords::add(Communicator& communicator) {
  using Settings = std::optional<std::pair<std::string, bool>>;
  const auto settings = py::module_::import("square.flight_record").attr("settings")().cast<Settings>();
  if (!settings) return nullptr;
  return unlocked([&] { return add(communicator, settings->first, settings->second); });
}

std::shared_ptr<void> FlightRecords::add(Communicator& communicator, const std::string& path, bool follows) {
  const std::lock_guard lock(mutex_);
  if (follows && signal_ == 0) signal_ = listen();
  std::shared_ptr<FlightRecordFolder>& folder = folders_[path];
  if (!folder) folder = std::make_shared<FlightRecordFolder>(path, follows ? signal_ : 0);
  // An error must not end a training: the log says it with the group's first error.
  static_cast<void>(communicator.write_flight_records(folder, follows));
  if (!follows) return nullptr;
  communicators_.insert(&communicator);
  return {&communicator, [this, owner = getpid()](Communicator* gone) {
            if (getpid() != owner) return;  // a forked child, which perhaps has the mutex for ever
            const std::lock_guard removal(mutex_);
            communicators_.erase(gone);
          }};
}

int FlightRecords::listen() {
  struct sigaction before {};
  if (sigaction(kSignal, nullptr, &before) != 0) return 0;
  const bool is_ours = (before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == &on_signal;
  if (!is_ours && ((before.sa_flags & SA_SIGINFO) != 0 || before.sa_handler != SIG_DFL)) return 0;
  int ends[2] = {-1, -1};  // NOLINT(modernize-avoid-c-arrays): pipe2 wants one
  if (pipe2(ends, O_CLOEXEC) != 0) return 0;
  // A handler must not wait for room.
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  signal_pipe = ends[1];
  signal_owner = getpid();
  std::thread([this, end = ends[0]] { run(end); }).detach();
  struct sigaction action {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  return sigaction(kSignal, &action, nullptr) == 0 ? kSignal : 0;
}

void FlightRecords::run(int descriptor) {
  char byte = 0;
  for (;;) {
    const ssize_t count = read(descriptor, &byte, 1);
    if (count == 1) {
      write_all();
    } else if (count == 0 || errno != EINTR) {
      return;
    }
  }
}

void FlightRecords::write_all() {
  const std::lock_guard lock(mutex_);
  for (Communicator* const communicator : communicators_) {
    static_cast<void>(communicator->write_flight_record());
  }
}

}  // namespace square::python
