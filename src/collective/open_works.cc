#include "collective/open_works.h"

#include <vector>

namespace square {

void OpenWorks::add(const std::shared_ptr<Work>& work) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_;
    works_.emplace(number, work);
  }
  work->on_done([self = shared_from_this(), number] { self->remove(number); });
}

void OpenWorks::remove(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  works_.erase(number);
  changed_.notify_all();
}

std::size_t OpenWorks::wait_for_none(Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [this] { return works_.empty(); });
  return works_.size();
}

void OpenWorks::cancel() {
  std::vector<std::shared_ptr<Work>> works;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, known] : works_) {
      if (auto work = known.lock()) works.push_back(std::move(work));
    }
  }
  for (const auto& work : works) work->cancel();
}

}  // namespace square
