#include "collective/pause_watch.h"

namespace square {

std::shared_ptr<PauseWatch> PauseWatch::start(const Clock& clock, Executor& executor) {
  std::shared_ptr<PauseWatch> watch(new PauseWatch(clock, executor));
  watch->look_later();
  return watch;
}

bool PauseWatch::was_stopped_since(TimePoint when) const {
  // Right after a pause the question may come before the next look.
  return clock_.now() - looked_at_.load() >= kLongPause + kPauseLook || pause_end_.load() > when;
}

void PauseWatch::look() {
  const TimePoint now = clock_.now();
  if (now - looked_at_.exchange(now) >= kLongPause + kPauseLook) pause_end_ = now;
  look_later();
}

void PauseWatch::look_later() {
  executor_.post_at(clock_.now() + kPauseLook, [watch = weak_from_this()] {
    if (const auto still = watch.lock()) still->look();
  });
}

}  // namespace square
