// The executor of real nodes: operating-system threads and the machine's steady clock.
#pragma once

#include <memory>

#include "square/executor.h"

namespace square {

inline constexpr int kMaxPayloadThreads = 64;

// Lends a thread that waits for events of its own: an event and all that the strand does about it
// then take one thread, and no other has to wake.
class StrandHost {
 public:
  virtual ~StrandHost() = default;
  // Makes the host's thread call run_ready() soon. From any thread, under locks: must not block and
  // must not call the executor.
  virtual void wake() = 0;
};

// The strand has a thread of its own until a host takes it over. Timers are points of steady_clock();
// the strand's own thread runs them as exactly as the kernel wakes (its timer slack is one nanosecond,
// so that pacing does not drift), a host when it comes round. Thread-safe. Its queues have no bound of
// their own: what a node posts is bounded by credit and by its groups.
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
  void work(std::size_t bytes, Task task) override;

  // Is this thread at a task or a timer of the strand?
  [[nodiscard]] bool is_on_strand() const;
  // The same, or at payload work: stop() would wait for this thread.
  [[nodiscard]] bool is_own_thread() const;

  // From here on the host's thread runs the strand; the own one rests. One host at a time.
  void lend_to(StrandHost& host);
  // The own thread goes on. Returns when wake() is not called any more. Nothing if there is no host.
  void take_back();
  // On the host's thread, whenever it is awake: runs what is due, but not for ever. Returns when to
  // call again at the latest; that is past if something is due already.
  TimePoint run_ready();

  // Runs what was posted or given to work() before, drops timers and everything posted
  // from now on, and joins the threads: no task runs after it returns. Blocks until the
  // last task is through. Idempotent. Precondition: not called by a task.
  void stop();

  struct Core;  // private to the implementation

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace square
