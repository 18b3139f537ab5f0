// The executor of real nodes: operating-system threads and the machine's steady clock.
#pragma once

#include <memory>

#include "square/executor.h"

namespace square {

inline constexpr int kMaxPayloadThreads = 64;

// Timers are points of steady_clock() and run as exactly as the kernel wakes: the strand's
// timer slack is one nanosecond, so that pacing does not drift. Thread-safe. Its queues
// have no bound of their own: what a node posts is bounded by credit and by its groups.
class ThreadExecutor final : public Executor {
 public:
  // Starts the strand and `payload_threads` threads, from 1 to kMaxPayloadThreads.
  explicit ThreadExecutor(int payload_threads = 1);
  // Stops.
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void post(Task task) override;
  TimerId post_at(TimePoint when, Task task) override;
  void cancel(TimerId timer) override;
  void work(Task task) override;

  // Runs what was posted or given to work() before, drops timers and everything posted
  // from now on, and joins the threads: no task runs after it returns. Blocks until the
  // last task is through. Idempotent. Precondition: not called by a task.
  void stop();

  struct Core;  // private to the implementation

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace square
