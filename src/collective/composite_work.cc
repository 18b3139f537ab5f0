#include "collective/composite_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "square/data_plane.h"

namespace square {

CompositeWork::CompositeWork(CompositeOperation operation, GroupCalls::Numbered call, TimePoint begun_at,
                             std::shared_ptr<const std::atomic<bool>> is_due, std::function<void()> changed)
    : name_(std::move(operation.name)),
      call_(call),
      collective_(operation.collectives.front()),
      timeout_(std::clamp(operation.timeout, Duration(0), kLongestTimeout)),
      deadline_(begun_at + timeout_),
      is_due_(std::move(is_due)),
      changed_(std::move(changed)),
      body_(std::make_shared<const Body>(std::move(operation.body))) {}

void CompositeWork::stop(const char* why) {
  std::vector<std::shared_ptr<Work>> steps;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_at_ || outcome_.is_set()) return;
    stopped_at_ = steady_clock().now();
    why_ = why;
    steps = steps_;
  }
  for (const auto& step : steps) step->cancel();
  changed_();
}

Status CompositeWork::check() const {
  const std::lock_guard lock(mutex_);
  if (stopped_at_) return cancelled(fmt::format("{} was {}", name_, why_));
  if (steady_clock().now() < deadline_) return Status::ok();
  return deadline_exceeded(fmt::format("{} was not over after {:.1f} s", name_, to_seconds(timeout_)));
}

TimePoint CompositeWork::patience() const {
  const std::lock_guard lock(mutex_);
  return (stopped_at_ ? std::min(*stopped_at_, deadline_) : deadline_) + DataPlane::kDrainTime;
}

Status CompositeWork::gives_up() const { return check().with_context("a step did not end"); }

void CompositeWork::add_step(const std::shared_ptr<Work>& step) {
  bool is_late = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(steps_, [this](const auto& known) {
      if (!known->is_done() || !known->wait().is_ok()) return false;
      past_.add(known->progress());
      return true;
    });
    steps_.push_back(step);
    is_late = stopped_at_.has_value();
  }
  if (is_late) step->cancel();
}

std::vector<std::shared_ptr<Work>> CompositeWork::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

WorkProgress CompositeWork::progress() const {
  WorkProgress progress;
  progress.call = call_.number;
  const std::lock_guard lock(mutex_);
  progress.add(past_);
  for (const auto& step : steps_) progress.add(step->progress());
  return progress;
}

void CompositeWork::finish(const Status& outcome) {
  body_.reset();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& step : steps_) past_.add(step->progress());
    steps_.clear();
  }
  outcome_.set(outcome);
}

}  // namespace square
