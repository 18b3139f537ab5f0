// A virtual clock: lets bits through at a rate, exactly on average.
#pragma once

#include <cstddef>

#include "square/clock.h"

namespace square {

// What a late timer may catch up while there is something to send.
inline constexpr Duration kPacerCatchUp = std::chrono::milliseconds(30);
// What may be sent at once after a time with nothing to send: a kernel's shaper of 5 ms.
inline constexpr Duration kPacerBurst = std::chrono::milliseconds(5);

// Deadlines are absolute, so late timers do not add up to a lower rate (relative
// sleeps lose 2 to 16%). Not thread-safe.
class Pacer {
 public:
  // Positive; kUnlimited: everything passes at once.
  explicit Pacer(double rate_bps) : rate_bps_(rate_bps) {}

  // What was charged and has not passed yet passes at the new rate.
  void set_rate(double rate_bps, TimePoint now);
  [[nodiscard]] double rate_bps() const { return rate_bps_; }

  // One more of those who share the pacer has something to send, and one of them has no
  // more. After a time when nobody had, less may be caught up.
  void begin(TimePoint now);
  void end();
  // When the next bit may pass; not after `now` if it may pass now.
  [[nodiscard]] TimePoint ready_at() const { return rate_bps_ == kUnlimited ? TimePoint{} : ready_at_; }
  // Takes `bits` at `now`, also before ready_at(): then later ones wait longer.
  void charge(double bits, TimePoint now);

 private:
  double rate_bps_;
  TimePoint ready_at_{};
  std::size_t senders_ = 0;
};

}  // namespace square
