// One thread that waits for sockets, for tasks of other threads and for time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/net/file_descriptor.h"
#include "gateway/descriptors.h"
#include "square/status.h"
#include "square/units.h"

namespace square::gateway {

// What `starts` returns. Errors: RESOURCE_EXHAUSTED where this process may have no more threads.
template <typename Starts>
auto with_new_threads(Starts starts) -> decltype(starts()) {
  try {
    return starts();
  } catch (const std::system_error& error) {
    return resource_exhausted(std::string("cannot start a thread: ") + error.what() +
                              "; raise the limits of threads and of memory, or let other work end");
  }
}

class EventLoop {
 public:
  using Task = std::function<void()>;
  using WatchId = std::uint64_t;

  // Errors: RESOURCE_EXHAUSTED where the process has no descriptors left.
  static Result<std::shared_ptr<EventLoop>> make();
  ~EventLoop();

  // Thread-safe. Runs `task` on the loop's thread, in order; dropped after stop().
  void post(Task task);

  // On the loop's thread, or before start(). `ready` gets the epoll events, level-triggered. Nothing where
  // the kernel refuses: a user may have a bounded number of watches, and not all files can be watched.
  std::optional<WatchId> watch(int descriptor, std::uint32_t events,
                               std::function<void(std::uint32_t)> ready);
  void change(WatchId watch, std::uint32_t events);
  // `ready` does not run any more, and is destroyed on the loop's thread.
  void forget(WatchId watch);

  // `tick` runs about every `interval`. Errors: those of with_new_threads(); then nothing runs.
  Status start(const char* thread_name, Duration interval, Task tick);
  // Runs what was posted, then ends the thread. Idempotent; not from the loop's thread.
  void stop();

  // For what other processes have sent, on any thread.
  [[nodiscard]] Closer& closer() { return closer_; }

 private:
  struct Watch {
    int descriptor;
    std::shared_ptr<std::function<void(std::uint32_t)>> ready;
  };
  EventLoop(FileDescriptor poller, FileDescriptor wake);
  void run(Duration interval, const Task& tick);
  bool run_tasks();

  FileDescriptor poller_;
  FileDescriptor wake_;
  std::map<WatchId, Watch> watches_;
  WatchId last_watch_ = 0;
  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
  Closer closer_;
};

}  // namespace square::gateway
