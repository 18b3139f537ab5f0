// What asks for another plan, and how soon.
#pragma once

#include <functional>
#include <utility>

#include "square/clock.h"

namespace square::controller {

// kCanWait: where members lag, until they have caught up, or kRest is over.
enum class Urgency { kNone, kCanWait, kAtOnce };

// Not thread-safe.
class Agenda {
 public:
  explicit Agenda(std::function<void()> wake) : wake_(std::move(wake)) {}

  void note(Urgency urgency = Urgency::kAtOnce) {
    if (urgency == Urgency::kNone) return;
    (urgency == Urgency::kAtOnce ? is_urgent_ : has_change_) = true;
    wake_();
  }
  // All that was noted is done now.
  void clear() { is_urgent_ = has_change_ = false; }

  [[nodiscard]] bool is_urgent() const { return is_urgent_; }
  [[nodiscard]] bool has_change() const { return has_change_; }
  // `rest_end`: Publication::rest_end().
  [[nodiscard]] bool is_due(TimePoint rest_end, TimePoint now) const {
    return is_urgent_ || (has_change_ && rest_end <= now);
  }

 private:
  std::function<void()> wake_;
  bool is_urgent_ = false;
  bool has_change_ = false;  // that can wait
};

}  // namespace square::controller
