// BackgroundPlanner: a thread that plans while somebody else has something to publish already.
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "square/planner.h"

namespace square {

class BackgroundPlanner::Worker {
 public:
  explicit Worker(std::function<void()> ready) : ready_(std::move(ready)), thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      budget_.cancel();
      changed_.notify_all();
    }
    thread_.join();
  }

  void start(Scenario scenario) {
    const std::lock_guard lock(mutex_);
    budget_.cancel();
    budget_ = Budget::until_cancelled();
    if (is_stopped_) budget_.cancel();
    task_ = std::move(scenario);
    ++number_;
    answer_.reset();
    somebody_waits_ = true;
    changed_.notify_all();
  }

  std::optional<Result<PlanResult>> wait_for(Duration patience) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return answer_.has_value(); });
    return std::exchange(answer_, std::nullopt);
  }

  Result<PlanResult> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.has_value(); });
    return *std::exchange(answer_, std::nullopt);
  }

  // Nobody waits from now on: what comes is for take(). What has come meanwhile, if it is a plan.
  std::optional<Result<PlanResult>> leave() {
    bool has_failed = false;
    {
      const std::lock_guard lock(mutex_);
      if (answer_.has_value() && answer_->is_ok()) return std::exchange(answer_, std::nullopt);
      somebody_waits_ = false;
      has_failed = answer_.has_value();
    }
    if (has_failed) ready_();
    return std::nullopt;
  }

  std::optional<Result<PlanResult>> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answer_, std::nullopt);
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    budget_.cancel();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    budget_.cancel();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || task_.has_value(); });
      if (stopping_) return;
      const Scenario scenario = std::move(*std::exchange(task_, std::nullopt));
      const std::uint64_t number = number_;
      const Budget budget = budget_;
      lock.unlock();
      Result<PlanResult> answer = planner_.plan(scenario, {.budget = budget});
      lock.lock();
      if (number != number_) continue;  // it is not wanted any more
      answer_ = std::move(answer);
      changed_.notify_all();
      if (somebody_waits_ || stopping_) continue;
      lock.unlock();
      ready_();
      lock.lock();
    }
  }

  const std::function<void()> ready_;
  Planner planner_;  // of the thread alone

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool is_stopped_ = false;  // each budget is spent
  std::optional<Scenario> task_;
  Budget budget_;             // of the newest task
  std::uint64_t number_ = 0;  // of the newest task
  std::optional<Result<PlanResult>> answer_;
  bool somebody_waits_ = false;

  std::thread thread_;  // after what it uses
};

BackgroundPlanner::BackgroundPlanner(std::function<void()> ready)
    : worker_(std::make_unique<Worker>(std::move(ready))) {}
BackgroundPlanner::BackgroundPlanner(BackgroundPlanner&&) noexcept = default;
BackgroundPlanner& BackgroundPlanner::operator=(BackgroundPlanner&&) noexcept = default;
BackgroundPlanner::~BackgroundPlanner() = default;

Result<PlanResult> BackgroundPlanner::plan(Scenario scenario, Duration patience) {
  worker_->start(scenario);
  if (std::optional<Result<PlanResult>> made = worker_->wait_for(patience)) return *std::move(made);
  Result<PlanResult> quick = make_quick_plan(scenario);
  if (!quick.is_ok()) return worker_->wait();
  if (std::optional<Result<PlanResult>> made = worker_->leave()) return *std::move(made);
  return quick;
}

std::optional<Result<PlanResult>> BackgroundPlanner::take_better() { return worker_->take(); }

void BackgroundPlanner::cancel() { worker_->cancel(); }

void BackgroundPlanner::stop() { worker_->stop(); }

}  // namespace square
