#include "ps/shard/progress.h"

#include <utility>

namespace square::ps {

void Progress::advance(std::size_t parts) {
  {
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
    ready_ = parts;
  }
  changed_.notify_all();
}

void Progress::fail(Status cause) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.is_ok()) failure_ = std::move(cause);
  }
  changed_.notify_all();
}

Status Progress::wait(std::size_t parts, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const bool is_over =
      changed_.wait(lock, stop, [&] { return !failure_.is_ok() || (has_begun_ && ready_ >= parts); });
  if (!is_over) return cancelled("it was given up while a version was being made");
  return failure_;
}

bool Progress::is_ready(std::size_t parts) const {
  const std::lock_guard lock(mutex_);
  return failure_.is_ok() && has_begun_ && ready_ >= parts;
}

bool Progress::has_failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.is_ok();
}

}  // namespace square::ps
