#include "collective/composite_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/told_once.h"
#include "square/clock.h"
#include "square/data_plane.h"

namespace square {
namespace {

Status guarded(const std::string& name, const std::function<Status()>& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return resource_exhausted(name + ": no memory for what it keeps between its steps");
  } catch (const std::exception& error) {
    return internal_error(name + ": " + error.what());
  }
}

}  // namespace

CompositeCall::CompositeCall(CompositeOperation operation, const GroupCalls::Numbered& number,
                             TimePoint begun_at, std::weak_ptr<CompositeLine> line)
    : name_(std::move(operation.name)),
      number_(number),
      collective_(operation.collectives.front()),
      timeout_(std::clamp(operation.timeout, Duration(0), kLongestTimeout)),
      deadline_(begun_at + timeout_),
      line_(std::move(line)),
      machine_(std::move(operation.steps)) {}

Status CompositeCall::was(const char* what) const { return cancelled(fmt::format("{} was {}", name_, what)); }

Status CompositeCall::is_late() const {
  return deadline_exceeded(fmt::format("{} was not over after {:.1f} s", name_, to_seconds(timeout_)));
}

TimePoint CompositeCall::patience() const {
  return std::min(ending_since_.value_or(deadline_), deadline_) + DataPlane::kDrainTime;
}

void CompositeCall::cancel() {
  if (const auto line = line_.lock(); line && !is_done())
    line->take_turn([self = shared_from_this(), line] { line->cancel(*self); });
}

void CompositeCall::start() {
  run_steps([&, machine = machine_] { machine->begin(*this); });
}

void CompositeCall::begin(Part part, std::function<void()> then) {
  const auto line = line_.lock();
  if (!line || failure_) return;
  if (stopped_) return fail(*stopped_);
  const Duration left = deadline_ - line->now();
  if (left <= Duration(0)) return fail(is_late());
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  auto begun = line->group().call_step(number_.number, std::move(parts), left);
  if (!begun.is_ok()) return fail(begun.status());
  const std::shared_ptr<Work>& step = *begun;
  ++under_way_;
  add_step(step);
  // A step that is given up may still use what the steps own.
  step->on_done([self = shared_from_this(), line, machine = machine_, step, then = std::move(then)] {
    line->take_turn([self, machine, step, then] {
      --self->under_way_;
      self->on_end(step->wait(), then);
    });
  });
}

void CompositeCall::work(std::size_t bytes, std::function<Status()> task, std::function<void()> then) {
  const auto line = line_.lock();
  if (!line || failure_) return;
  ++at_work_;
  const auto on_worked = [self = shared_from_this(), line, machine = machine_,
                          then = std::move(then)](const Status& outcome) {
    line->take_turn([self, machine, outcome, then] {
      --self->at_work_;
      self->on_end(outcome, then);
    });
  };
  const auto worked = std::make_shared<Status>();
  // A node that stops drops what it is to do.
  line->group().host().work(
      bytes, [name = name_, task = std::move(task), worked] { *worked = guarded(name, task); },
      [worked, tell = told_once(on_worked, was("ended with its node"))] { tell(*worked); });
}

void CompositeCall::finish(const Status& outcome) {
  if (!outcome.is_ok()) return fail(outcome);
  is_finished_ = true;
}

void CompositeCall::run_steps(const std::function<void()>& steps) {
  const Status ran = guarded(name_, [&] { return steps(), Status::ok(); });
  if (!ran.is_ok()) fail(ran);
}

void CompositeCall::on_end(const Status& outcome, const std::function<void()>& then) {
  if (!outcome.is_ok()) {
    fail(outcome);
  } else if (stopped_ && under_way_ == 0) {
    fail(*stopped_);
  } else if (then && !failure_ && !is_done()) {
    run_steps(then);
  }
  end_if_over();
}

void CompositeCall::stop(const Status& why) {
  if (stopped_ || failure_ || is_done()) return;
  stopped_ = why;
  if (under_way_ == 0) return fail(why);
  const auto line = line_.lock();
  ending_since_ = line->now();
  cancel_steps();
  line->on_ending();
}

void CompositeCall::fail(const Status& cause) {
  const auto line = line_.lock();
  if (!line || failure_ || is_done()) return;
  failure_ = cause;
  if (!ending_since_) ending_since_ = line->now();
  line->tell(*this, cause);
  cancel_steps();
  line->on_ending();
}

void CompositeCall::end_if_over() {
  const auto line = line_.lock();
  if (!line || is_done() || at_work_ > 0) return;
  if (under_way_ == 0 && (failure_ || is_finished_)) return end(failure_.value_or(Status::ok()));
  if (line->now() < patience()) return;
  const Status late = stopped_.value_or(is_late()).with_context("a step did not end");
  fail(late);
  end(*failure_);
}

void CompositeCall::end(const Status& outcome) {
  machine_.reset();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& step : steps_) past_.add(step->progress());
    steps_.clear();
  }
  if (const auto line = line_.lock()) line->on_over(*this);
  outcome_.set(outcome);
}

void CompositeCall::cancel_steps() {
  std::vector<std::shared_ptr<Work>> steps;
  {
    const std::lock_guard lock(mutex_);
    steps = steps_;
  }
  for (const auto& step : steps) step->cancel();
}

void CompositeCall::add_step(const std::shared_ptr<Work>& step) {
  const std::lock_guard lock(mutex_);
  std::erase_if(steps_, [this](const auto& known) {
    if (!known->is_done() || !known->wait().is_ok()) return false;
    past_.add(known->progress());
    return true;
  });
  steps_.push_back(step);
}

WorkProgress CompositeCall::progress() const {
  WorkProgress progress;
  progress.call = number_.number;
  const std::lock_guard lock(mutex_);
  progress.add(past_);
  for (const auto& step : steps_) progress.add(step->progress());
  return progress;
}

}  // namespace square
