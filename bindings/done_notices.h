// Tells Python that operations are over, on threads of its own: the threads that end operations carry
// data and must not wait for the interpreter's lock.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bindings.h"

namespace square::python {

// One thread runs all callbacks, in the order of the operations' ends, while callbacks return at once. A
// callback may also wait for an operation that it starts, whose callbacks then run on another level, which
// has a thread of its own. And it may wait for something that was started elsewhere: after kTakeoverTime in
// one callback the level's next ones run on another thread.
class DoneNotices {
 public:
  // How deep callbacks may wait for one another.
  static constexpr std::size_t kMaxLevels = 64;
  // How many callbacks of one level may be stuck at once; the next ones wait.
  static constexpr std::size_t kMaxThreadsPerLevel = 16;
  static constexpr std::chrono::milliseconds kTakeoverTime{5};

  // Never destroyed: an operation may end while the process does.
  static DoneNotices& instance();

  struct Notice;
  // Of one operation, in the order in which they were asked for.
  using Notices = std::deque<std::shared_ptr<Notice>>;
  // With the interpreter's lock. `waiting` is used by these two alone.
  // RESOURCE_EXHAUSTED in a callback that is kMaxLevels deep.
  [[nodiscard]] Status prepare(Notices& waiting, py::function callback);
  // The first of those that wait: operations may report their end in any order. From any thread, without
  // the interpreter's lock. After stop() nothing happens.
  void post(Notices& waiting);
  // Calls what was posted and what those callbacks wait for, and nothing after that. With the interpreter's
  // lock, which it lets go.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  // A callback that runs, or has run, and the one in which it was asked for.
  struct Call {
    std::size_t level = 0;
    bool is_running = true;
    std::shared_ptr<Call> parent;
  };

  // The callbacks of one level. The leader takes them; a standby becomes the leader when it is stuck.
  struct Level {
    Notices posted;
    std::condition_variable for_leader;
    std::condition_variable for_standby;
    std::vector<std::thread> threads;
    std::size_t busy_threads = 0;
    std::size_t leader = 0;  // index in `threads`
    bool is_leader_busy = false;
    Clock::time_point leader_busy_since;
  };

  static thread_local std::shared_ptr<Call> current_call;

  // The levels, a bit each, on which `call` and those that it was asked for in still run. Forgets the others.
  static std::uint64_t running_levels(std::shared_ptr<Call>& call);
  void keep_spare(Level& level);
  void add_thread(Level& level);
  void run(Level& level, std::size_t thread);
  [[nodiscard]] bool may_take(Level& level, std::size_t thread) const;
  void wait(Level& level, std::size_t thread, std::unique_lock<std::mutex>& lock);
  void take(Level& level, std::size_t thread, std::unique_lock<std::mutex>& lock);
  void note_begin(Level& level, std::size_t thread);

  std::mutex mutex_;
  std::array<Level, kMaxLevels> levels_;
  std::condition_variable none_open_;
  std::size_t open_notices_ = 0;  // posted, and not over
  bool is_stopping_ = false;
};

}  // namespace square::python
