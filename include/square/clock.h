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

// The machine's monotonic clock; its zero is the machine's.
const Clock& steady_clock();

}  // namespace square
