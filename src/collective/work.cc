#include "collective/work.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace square {

void WorkProgress::add(const WorkProgress& part) {
  if (call.kind == CallKind::kNone) call = part.call;
  if (!message) message = part.message;
  epoch = std::max(epoch, part.epoch);
  if (part.first_byte) first_byte = std::min(first_byte.value_or(*part.first_byte), *part.first_byte);
  if (part.last_byte) last_byte = std::max(last_byte.value_or(*part.last_byte), *part.last_byte);
  if (!open) open = part.open;
}

Status Outcome::wait() {
  // In a forked child nobody sets it.
  SQUARE_RETURN_IF_ERROR(process_.check("an operation"));
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  return *outcome_;
}

bool Outcome::wait_for(Duration timeout) {
  if (process_.is_forked()) return false;
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

WorkProgress PostedWork::progress() const {
  WorkProgress progress;
  progress.call = progress_->call();
  if (progress.call.kind == CallKind::kNone) progress.message = progress_->operation();
  progress.epoch = progress_->epoch();
  if (progress_->first_byte() != TimePoint::min()) {
    progress.first_byte = progress_->first_byte();
    progress.last_byte = progress_->last_byte();
  }
  if (!is_done()) progress.open.emplace(progress_->collective(), progress_->operation());
  return progress;
}

WorkProgress JoinedWork::progress() const {
  WorkProgress all;
  for (const auto& part : parts_) all.add(part->progress());
  return all;
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
