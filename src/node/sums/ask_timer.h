// When a sum that hears nothing asks, or says where it is.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "square/clock.h"
#include "square/executor.h"

namespace square {

// The root asks how far everybody is after so long without a block; each time without one it
// waits longer. So does a contributor that has sent everything and heard nothing.
inline constexpr Duration kMinAskWait = std::chrono::milliseconds(250);
inline constexpr Duration kMaxAskWait = std::chrono::seconds(1);

// Not thread-safe: used on the executor's strand.
class AskTimer {
 public:
  AskTimer(Executor& executor, const Clock& clock) : executor_(executor), clock_(clock) {}

  // Runs `ask` after the present wait; what was armed before is not run.
  void arm(std::function<void()> ask) {
    executor_.cancel(timer_);
    timer_ = executor_.post_at(clock_.now() + wait_, std::move(ask));
  }
  void cancel() {
    executor_.cancel(timer_);
    timer_ = 0;
  }

  void hear() { has_heard_ = true; }
  // Whether a block came since the last time: then the next wait is short again.
  bool take_heard() {
    if (!std::exchange(has_heard_, false)) return false;
    wait_ = kMinAskWait;
    return true;
  }
  // Makes the wait short again, if it is armed and was not: then arm() it once more.
  [[nodiscard]] bool hurry() { return timer_ != 0 && std::exchange(wait_, kMinAskWait) > kMinAskWait; }
  void wait_longer() { wait_ = std::min(2 * wait_, kMaxAskWait); }

 private:
  Executor& executor_;
  const Clock& clock_;
  Duration wait_ = kMinAskWait;
  bool has_heard_ = false;
  Executor::TimerId timer_ = 0;
};

}  // namespace square
