// Tells Python that operations are over, from one thread: the threads that end operations carry
// data and must not wait for the interpreter's lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "bindings.h"

namespace square::python {

class DoneNotices {
 public:
  // Never destroyed: an operation may end while the process does.
  static DoneNotices& instance();

  struct Notice;
  // Of one operation, in the order in which they were asked for.
  using Notices = std::deque<std::shared_ptr<Notice>>;
  // With the interpreter's lock; starts the thread. `waiting` is used by these two alone.
  void prepare(Notices& waiting, py::function callback);
  // The first of those that wait: the operation may tell of its end in any order. From any thread, without
  // the lock. After stop() nothing happens.
  void post(Notices& waiting);
  // Calls what was posted, and nothing after that. With the interpreter's lock, which it lets go.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  Notices posted_;
  std::thread thread_;
  bool is_stopping_ = false;
};

}  // namespace square::python
