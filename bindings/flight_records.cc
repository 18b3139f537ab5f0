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

constexpr int kAsks = SIGUSR2;

std::atomic<FlightRecords*> current_records = nullptr;
// What the handler writes to, in the process that listens there: a forked child has the pipe and no thread.
std::atomic<int> signal_pipe = -1;
std::atomic<pid_t> signal_owner = 0;

// As the signal would have without a handler.
void end_by(int signal) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  if (sigaction(signal, &action, nullptr) == 0) kill(getpid(), signal);
}

void on_signal(int signal) {
  const int error = errno;
  const char byte = static_cast<char>(signal);
  const bool is_told = getpid() == signal_owner && write(signal_pipe, &byte, 1) == 1;
  // In a forked child, and where the program has closed the pipe.
  if (!is_told && signal == SIGTERM) end_by(signal);
  errno = error;
}

// False where the program has a handler of its own.
bool take(int signal) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0) return false;
  if (action.sa_handler != SIG_DFL && action.sa_handler != &on_signal) return false;
  action = {};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART;
  return sigaction(signal, &action, nullptr) == 0;
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
  std::optional<std::pair<std::string, bool>> settings;
  try {
    settings = py::module_::import("square.flight_record").attr("settings")().cast<decltype(settings)>();
  } catch (py::error_already_set& error) {
    // A process that has changed its user may not read the package any more. It gets no records.
    error.discard_as_unraisable("where flight records go");
  }
  if (!settings) return nullptr;
  return unlocked([&] { return add(communicator, settings->first, settings->second); });
}

std::shared_ptr<void> FlightRecords::add(Communicator& communicator, const std::string& path, bool follows) {
  const std::lock_guard lock(mutex_);
  if (follows) listen();
  std::shared_ptr<FlightRecordFolder>& folder = folders_[path];
  if (!folder) folder = std::make_shared<FlightRecordFolder>(path, follows ? asked_by_ : 0);
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

void FlightRecords::listen() {
  if (is_listening_) return;
  int ends[2] = {-1, -1};  // NOLINT(modernize-avoid-c-arrays): pipe2 wants one
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  is_listening_ = true;
  // A handler must not wait for room.
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  signal_pipe = ends[1];
  signal_owner = getpid();
  std::thread([this, end = ends[0]] { run(end); }).detach();
  asked_by_ = take(kAsks) ? kAsks : 0;
  take(SIGTERM);
}

void FlightRecords::run(int descriptor) {
  char signal = 0;
  for (;;) {
    const ssize_t count = read(descriptor, &signal, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1) return;
    if (signal == SIGTERM) {
      // The sender may soon kill the process: no node is waited for.
      write_all(FlightRecordReason::kTerminated, Duration(0));
      end_by(SIGTERM);
    } else {
      write_all(FlightRecordReason::kAsked, DataPlane::kDrainTime);
    }
  }
}

void FlightRecords::write_all(FlightRecordReason reason, Duration patience) {
  const std::lock_guard lock(mutex_);
  for (Communicator* const communicator : communicators_)
    static_cast<void>(communicator->write_flight_record(reason, patience));
}

}  // namespace square::python
