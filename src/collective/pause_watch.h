// Whether this process was stopped for long: by a signal, a debugger, or its machine's sleep.
#pragma once

#include <atomic>
#include <memory>

#include "square/clock.h"
#include "square/executor.h"

namespace square {

// A process that is silent for this time is taken for dead: its group goes on without it.
inline constexpr Duration kLongPause = std::chrono::seconds(10);
// A look that comes so much later than the one before found a pause.
inline constexpr Duration kPauseLook = std::chrono::seconds(1);

class PauseWatch : public std::enable_shared_from_this<PauseWatch> {
 public:
  // Looks until the executor stops, or nobody has the watch. Both must live longer.
  static std::shared_ptr<PauseWatch> start(const Clock& clock, Executor& executor);

  // From any thread.
  [[nodiscard]] bool was_stopped_since(TimePoint when) const;

 private:
  PauseWatch(const Clock& clock, Executor& executor)
      : clock_(clock), executor_(executor), looked_at_(clock.now()) {}
  void look();
  void look_later();

  const Clock& clock_;
  Executor& executor_;
  std::atomic<TimePoint> looked_at_;
  std::atomic<TimePoint> pause_end_{TimePoint::min()};
};

}  // namespace square
