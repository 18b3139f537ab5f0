#include "square/thread_executor.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
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

// What a host runs at least before it looks for events again, if there is so much: tasks, and as many timers.
constexpr std::size_t kTasksInARow = 64;

// The strand does so little work itself: memory gives as much in 10 us, and to wake another thread and
// be woken by it takes longer.
constexpr std::size_t kQuickWorkBytes = std::size_t{128} << 10U;
// And no more than this before it looks for events again.
constexpr std::size_t kQuickTurnBytes = 4 * kQuickWorkBytes;

// A queue of tasks and timers by due time. Whoever runs them, the own thread or a host's, is the only one.
class Strand {
 public:
  void post(Task task) {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
    wake_runner();
  }

  TimerId post_at(TimePoint when, Task task) {
    const std::lock_guard lock(mutex_);
    const TimerId timer = ++last_timer_;
    if (stopping_) return timer;
    const auto place = timers_.emplace(std::pair(when, timer), std::move(task)).first;
    due_.emplace(timer, when);
    if (place == timers_.begin()) wake_runner();
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

  void lend_to(StrandHost& host) {
    const std::lock_guard lock(mutex_);
    SQUARE_CHECK(host_ == nullptr, "the strand has a host already");
    host_ = &host;
    host_waits_ = true;
    host_->wake();
  }

  void take_back() {
    const std::lock_guard lock(mutex_);
    host_ = nullptr;
    host_thread_ = {};
    changed_.notify_one();
  }

  TimePoint run_ready() {
    std::unique_lock lock(mutex_);
    if (host_ == nullptr || stopping_) return TimePoint::max();
    host_waits_ = false;
    host_thread_ = std::this_thread::get_id();
    // The own thread may still be at its last task: it gives the turn back with a wake-up.
    if (!is_running()) run_some(lock);
    if (host_ == nullptr || stopping_) {
      changed_.notify_one();
      return TimePoint::max();
    }
    host_waits_ = true;
    if (is_running()) return TimePoint::max();
    if (!tasks_.empty()) return TimePoint::min();
    return timers_.empty() ? TimePoint::max() : timers_.begin()->first.first;
  }

  [[nodiscard]] bool runs_here() {
    const std::lock_guard lock(mutex_);
    return runner_ == std::this_thread::get_id();
  }

  // Whether this thread, at a task of the strand, may do so much work itself.
  [[nodiscard]] bool takes(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (runner_ != std::this_thread::get_id() || bytes > kQuickWorkBytes) return false;
    if (turn_bytes_ + bytes > kQuickTurnBytes) return false;
    turn_bytes_ += bytes;
    return true;
  }

  void stop() {
    std::map<std::pair<TimePoint, TimerId>, Task> dropped;
    {
      const std::lock_guard lock(mutex_);
      SQUARE_CHECK(runner_ != std::this_thread::get_id(), "stop() was called by a task");
      stopping_ = true;
      dropped.swap(timers_);
      due_.clear();
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  [[nodiscard]] bool is_running() const { return runner_ != std::thread::id(); }

  // Who runs something looks again before it waits, and so does a host at the end of its event.
  void wake_runner() {
    if (host_ == nullptr) return changed_.notify_one();
    if (!host_waits_ || host_thread_ == std::this_thread::get_id()) return;
    host_waits_ = false;
    host_->wake();
  }

  void run() {
    pthread_setname_np(pthread_self(), "square-strand");
    prctl(PR_SET_TIMERSLACK, 1UL);
    std::unique_lock lock(mutex_);
    while (true) {
      if (is_running() || (host_ != nullptr && !stopping_)) {
        changed_.wait(lock);
        continue;
      }
      if (run_some(lock)) {
        if (host_ != nullptr && std::exchange(host_waits_, false)) host_->wake();
        continue;
      }
      if (stopping_) return;
      if (timers_.empty()) {
        changed_.wait(lock);
      } else {
        const TimePoint next = timers_.begin()->first.first;
        changed_.wait_until(lock, to_std(next));
      }
    }
  }

  // Whether there was anything to run.
  bool run_some(std::unique_lock<std::mutex>& lock) {
    runner_ = std::this_thread::get_id();
    turn_bytes_ = 0;
    std::size_t rounds = 0;
    // What waits already, at least: an event of a host may bring many tasks, and its next one as many more.
    const std::size_t most = std::max(kTasksInARow, tasks_.size());
    // One of each in turn, so that neither timers nor tasks can starve the other.
    for (; rounds < most; ++rounds) {
      const bool timer_ran = run_due_timer(lock);
      const bool task_ran = run_task(lock);
      if (!timer_ran && !task_ran) break;
    }
    runner_ = {};
    return rounds > 0;
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
  std::thread::id runner_;      // of the task that runs
  std::size_t turn_bytes_ = 0;  // of work that it has done itself
  StrandHost* host_ = nullptr;
  std::thread::id host_thread_;  // once it has run something
  bool host_waits_ = false;      // for events: it may have to be woken
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

void ThreadExecutor::work(std::size_t bytes, Task task) {
  if (core_->strand.takes(bytes)) return task();
  core_->workers.work(std::move(task));
}

bool ThreadExecutor::is_on_strand() const { return core_->strand.runs_here(); }

bool ThreadExecutor::is_own_thread() const { return is_on_strand() || core_->workers.runs_here(); }

void ThreadExecutor::lend_to(StrandHost& host) { core_->strand.lend_to(host); }

void ThreadExecutor::take_back() { core_->strand.take_back(); }

TimePoint ThreadExecutor::run_ready() { return core_->strand.run_ready(); }

void ThreadExecutor::stop() {
  const std::lock_guard lock(core_->stop_mutex);
  core_->strand.stop();
  core_->workers.stop();
}

}  // namespace square
