// Time as the node sees it. One implementation reads the machine's steady clock,
// the other is moved by a simulation.
#pragma once

#include <chrono>

#include "square/units.h"

namespace square {

// Never goes backwards. Thread-safe; does not block.
class Clock {
 public:
  using TimePoint = std::chrono::time_point<Clock, Duration>;

  virtual ~Clock() = default;
  [[nodiscard]] virtual TimePoint now() const = 0;
};

using TimePoint = Clock::TimePoint;

// The first multiple of `tick` at or after `when`. Times are not negative.
constexpr TimePoint tick_after(TimePoint when, Duration tick) {
  const Duration since = when.time_since_epoch();
  return TimePoint((since + tick - Duration(1)) / tick * tick);
}

// The last multiple of `tick` at or before `when`.
constexpr TimePoint tick_before(TimePoint when, Duration tick) {
  return TimePoint(when.time_since_epoch() / tick * tick);
}

// The machine's monotonic clock; its zero is the machine's.
const Clock& steady_clock();

}  // namespace square
