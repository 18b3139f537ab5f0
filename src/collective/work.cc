#include "collective/work.h"

#include <utility>

namespace square {

Status Outcome::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  return *outcome_;
}

bool Outcome::wait_for(Duration timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [&] { return outcome_.has_value(); });
}

bool Outcome::is_set() const {
  const std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

void Outcome::on_set(std::function<void()> notify) {
  {
    const std::lock_guard lock(mutex_);
    if (!outcome_) {
      notify_.push_back(std::move(notify));
      return;
    }
  }
  notify();
}

void Outcome::set(Status outcome) {
  std::vector<std::function<void()>> notify;
  {
    const std::lock_guard lock(mutex_);
    if (outcome_) return;
    outcome_ = std::move(outcome);
    notify = std::exchange(notify_, {});
    changed_.notify_all();
  }
  for (const auto& call : notify) call();
}

std::shared_ptr<Work> JoinedWork::join(Parts parts) {
  if (parts.size() == 1) return parts.front();
  const std::shared_ptr<JoinedWork> joined(new JoinedWork(std::move(parts)));
  if (joined->parts_.empty()) joined->outcome_.set(Status::ok());
  for (std::size_t i = 0; i < joined->parts_.size(); ++i)
    joined->parts_[i]->on_done([joined, i] { joined->on_part(i); });
  return joined;
}

void JoinedWork::on_part(std::size_t part) {
  Status outcome = parts_[part]->wait();
  {
    const std::lock_guard lock(mutex_);
    if (!outcome.is_ok() && first_failure_.is_ok()) first_failure_ = std::move(outcome);
    if (--left_ > 0) return;
    outcome = first_failure_;
  }
  outcome_.set(std::move(outcome));
}

void JoinedWork::cancel() {
  for (const auto& part : parts_) part->cancel();
}

}  // namespace square
