// One thread that waits for sockets, for tasks of other threads and for time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/net/file_descriptor.h"
#include "square/status.h"
#include "square/units.h"

namespace square::gateway {

using net::FileDescriptor;

class EventLoop {
 public:
  using Task = std::function<void()>;
  using WatchId = std::uint64_t;

  // Errors: RESOURCE_EXHAUSTED where the process has no descriptors left.
  static Result<std::shared_ptr<EventLoop>> make();
  ~EventLoop();

  // Thread-safe. Runs `task` on the loop's thread, in order; dropped after stop().
  void post(Task task);

  // On the loop's thread, or before start(). `ready` gets the epoll events, level-triggered.
  WatchId watch(int descriptor, std::uint32_t events, std::function<void(std::uint32_t)> ready);
  void change(WatchId watch, std::uint32_t events);
  // `ready` does not run any more, and is destroyed on the loop's thread.
  void forget(WatchId watch);

  // `tick` runs about every `interval`.
  void start(const char* thread_name, Duration interval, Task tick);
  // Runs what was posted, then ends the thread. Idempotent; not from the loop's thread.
  void stop();

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
};

}  // namespace square::gateway
