// Threads for work that takes a while: first come, first served.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "square/executor.h"

namespace square {

// Its queue has no bound of its own. Thread-safe.
class WorkerThreads {
 public:
  using Task = Executor::Task;

  // The threads are called `name`-0 and so on, at most 15 characters.
  WorkerThreads(const std::string& name, int count);
  // Stops.
  ~WorkerThreads() { stop(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Does not block. Nothing after stop().
  void work(Task task);
  // Runs what was given to work() before, and joins the threads. Idempotent. Preconditions: not called by a
  // task, nor by two threads at once.
  void stop();
  // Is this thread one of them?
  [[nodiscard]] bool runs_here() const;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::vector<std::thread::id> ids_;  // of those
};

}  // namespace square
