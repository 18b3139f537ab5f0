// Where a node's code runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "square/clock.h"

namespace square {

// One strand for decisions and some threads for payload. The strand runs one task at a
// time, in the order in which they were posted; payload work runs beside it.
// Implementations: threads (real) and a simulation (virtual time). Thread-safe.
class Executor {
 public:
  using Task = std::function<void()>;
  using TimerId = std::uint64_t;  // 0 is never a timer

  virtual ~Executor() = default;

  // Runs `task` on the strand. Does not block. After stop(), tasks are dropped.
  virtual void post(Task task) = 0;
  // Runs `task` on the strand at `when`, or at once if that is past.
  virtual TimerId post_at(TimePoint when, Task task) = 0;
  // Called on the strand: a cancelled timer does not run. Unknown ids are ignored.
  virtual void cancel(TimerId timer) = 0;
  // Runs `task` on a payload thread: copies, sums and checksums of about so many bytes, never decisions.
  // Perhaps before it returns, where another thread would cost more than the work does: so the task posts
  // what is to follow.
  virtual void work(std::size_t bytes, Task task) = 0;
};

}  // namespace square
