#include "square/thread_executor.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "transport/worker_threads.h"

namespace square {
namespace {

using Task = Executor::Task;
using TimerId = Executor::TimerId;

std::chrono::steady_clock::time_point to_std(TimePoint when) {
  return std::chrono::steady_clock::time_point(when.time_since_epoch());
}

// The decisions' thread: a queue of tasks and timers by due time.
class Strand {
 public:
  void post(Task task) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

  TimerId post_at(TimePoint when, Task task) {
    bool is_next = false;
    TimerId timer = 0;
    {
      const std::lock_guard lock(mutex_);
      timer = ++last_timer_;
      if (stopping_) return timer;
      const auto place = timers_.emplace(std::pair(when, timer), std::move(task)).first;
      due_.emplace(timer, when);
      is_next = place == timers_.begin();
    }
    if (is_next) changed_.notify_one();
    return timer;
  }

  void cancel(TimerId timer) {
    Task dropped;  // destroyed outside the lock: what it holds may call back
    const std::lock_guard lock(mutex_);
    const auto known = due_.find(timer);
    if (known == due_.end()) return;
    const auto place = timers_.find(std::pair(known->second, timer));
    dropped.swap(place->second);
    timers_.erase(place);
    due_.erase(known);
  }

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    SQUARE_CHECK(thread_.get_id() != std::this_thread::get_id(), "stop() was called by a task");
    std::map<std::pair<TimePoint, TimerId>, Task> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      dropped.swap(timers_);
      due_.clear();
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "square-strand");
    prctl(PR_SET_TIMERSLACK, 1UL);
    std::unique_lock lock(mutex_);
    while (true) {
      // One of each in turn, so that neither timers nor tasks can starve the other.
      const bool timer_ran = run_due_timer(lock);
      const bool task_ran = run_task(lock);
      if (timer_ran || task_ran || !tasks_.empty()) continue;
      if (stopping_) return;
      if (timers_.empty()) {
        changed_.wait(lock);
      } else {
        const TimePoint next = timers_.begin()->first.first;
        changed_.wait_until(lock, to_std(next));
      }
    }
  }

  bool run_due_timer(std::unique_lock<std::mutex>& lock) {
    if (timers_.empty() || timers_.begin()->first.first > steady_clock().now()) return false;
    auto timer = timers_.extract(timers_.begin());
    due_.erase(timer.key().second);
    run_unlocked(lock, std::move(timer.mapped()));
    return true;
  }

  bool run_task(std::unique_lock<std::mutex>& lock) {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    run_unlocked(lock, std::move(task));
    return true;
  }

  static void run_unlocked(std::unique_lock<std::mutex>& lock, Task task) {
    lock.unlock();
    task();
    task = nullptr;  // what it held may call back, so not under the lock
    lock.lock();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  std::map<std::pair<TimePoint, TimerId>, Task> timers_;
  std::unordered_map<TimerId, TimePoint> due_;
  TimerId last_timer_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

struct ThreadExecutor::Core {
  explicit Core(int payload_threads) : workers("square-work", payload_threads) {}

  Strand strand;
  WorkerThreads workers;
  std::mutex stop_mutex;  // a second stop() waits for the first
};

ThreadExecutor::ThreadExecutor(int payload_threads) : core_(std::make_unique<Core>(payload_threads)) {
  SQUARE_CHECK(payload_threads >= 1 && payload_threads <= kMaxPayloadThreads,
               "payload_threads is not between 1 and kMaxPayloadThreads");
  core_->strand.start();
}

ThreadExecutor::~ThreadExecutor() { stop(); }

void ThreadExecutor::post(Task task) { core_->strand.post(std::move(task)); }

Executor::TimerId ThreadExecutor::post_at(TimePoint when, Task task) {
  return core_->strand.post_at(when, std::move(task));
}

void ThreadExecutor::cancel(TimerId timer) { core_->strand.cancel(timer); }

void ThreadExecutor::work(Task task) { core_->workers.work(std::move(task)); }

void ThreadExecutor::stop() {
  const std::lock_guard lock(core_->stop_mutex);
  core_->strand.stop();
  core_->workers.stop();
}

}  // namespace square
