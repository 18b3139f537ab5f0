#include "done_notices.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <bit>
#include <system_error>
#include <utility>

namespace square::python {

// Let go without a call, it stays: the interpreter may be gone.
struct DoneNotices::Notice {
  py::function callback;
  std::shared_ptr<Call> parent;

  Notice(py::function call, std::shared_ptr<Call> asked_in)
      : callback(std::move(call)), parent(std::move(asked_in)) {}
  Notice(const Notice&) = delete;
  Notice& operator=(const Notice&) = delete;
  ~Notice() { static_cast<void>(callback.release()); }

  void call() {
    const py::function once = std::move(callback);
    try {
      once();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("the callback of an operation");
    }
  }
};

namespace {

std::atomic<DoneNotices*> current = nullptr;

}  // namespace

thread_local std::shared_ptr<DoneNotices::Call> DoneNotices::current_call;

DoneNotices& DoneNotices::instance() {
  // A forked child has none of its parent's threads, and perhaps a mutex that one of them held.
  static const int watches_forks = [] {
    current = new DoneNotices;
    return pthread_atfork(nullptr, nullptr, [] { current = new DoneNotices; });
  }();
  static_cast<void>(watches_forks);
  return *current;
}

Status DoneNotices::prepare(Notices& waiting, py::function callback) {
  const std::lock_guard lock(mutex_);
  if (std::popcount(running_levels(current_call)) >= static_cast<int>(kMaxLevels)) {
    return resource_exhausted(fmt::format(
        "callbacks of operations wait for one another {} levels deep, which is the most there may "
        "be: let a callback start its operation and return, and wait for it elsewhere",
        kMaxLevels));
  }
  // The first thread begins here: a thread that carries data starts none unless a callback is stuck.
  if (levels_[0].threads.empty() && !is_stopping_) add_thread(levels_[0]);
  waiting.push_back(std::make_shared<Notice>(std::move(callback), current_call));
  return Status::ok();
}

void DoneNotices::post(Notices& waiting) {
  const std::lock_guard lock(mutex_);
  Notice& notice = *waiting.front();
  const std::uint64_t waiting_levels = running_levels(notice.parent);
  if (is_stopping_ && waiting_levels == 0) return;
  Level& level = levels_[static_cast<std::size_t>(std::countr_one(waiting_levels))];
  level.posted.push_back(std::move(waiting.front()));
  waiting.pop_front();
  ++open_notices_;
  keep_spare(level);
  level.is_leader_busy ? level.for_standby.notify_one() : level.for_leader.notify_one();
}

std::uint64_t DoneNotices::running_levels(std::shared_ptr<Call>& call) {
  std::uint64_t levels = 0;
  for (std::shared_ptr<Call>* next = &call; *next;) {
    if ((*next)->is_running) {
      levels |= std::uint64_t{1} << (*next)->level;
      next = &(*next)->parent;
    } else {
      *next = std::shared_ptr<Call>((*next)->parent);
    }
  }
  return levels;
}

// The callbacks that run may all be stuck.
void DoneNotices::keep_spare(Level& level) {
  const bool has_spare = level.busy_threads < level.threads.size();
  if (level.posted.empty() || has_spare || level.threads.size() >= kMaxThreadsPerLevel) return;
  try {
    add_thread(level);
  } catch (const std::system_error&) {
    // The process may have no more threads: those that are there take it, and the next post tries again.
  }
}

void DoneNotices::add_thread(Level& level) {
  level.threads.emplace_back([this, &level, index = level.threads.size()] { run(level, index); });
}

void DoneNotices::run(Level& level, std::size_t thread) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (is_stopping_ && open_notices_ == 0) return;
    may_take(level, thread) ? take(level, thread, lock) : wait(level, thread, lock);
  }
}

bool DoneNotices::may_take(Level& level, std::size_t thread) const {
  if (level.posted.empty()) return false;
  if (level.leader == thread) return true;
  return level.is_leader_busy && Clock::now() - kTakeoverTime >= level.leader_busy_since;
}

void DoneNotices::wait(Level& level, std::size_t thread, std::unique_lock<std::mutex>& lock) {
  if (level.leader == thread) return level.for_leader.wait(lock);
  const bool is_begun = level.is_leader_busy && level.leader_busy_since != Clock::time_point::max();
  if (level.posted.empty() || !is_begun) return level.for_standby.wait(lock);
  level.for_standby.wait_until(lock, level.leader_busy_since + kTakeoverTime);
}

void DoneNotices::take(Level& level, std::size_t thread, std::unique_lock<std::mutex>& lock) {
  const auto notice = std::move(level.posted.front());
  level.posted.pop_front();
  const auto call = std::make_shared<Call>();
  call->level = static_cast<std::size_t>(&level - levels_.data());
  call->parent = notice->parent;
  level.leader = thread;
  level.is_leader_busy = true;
  level.leader_busy_since = Clock::time_point::max();
  ++level.busy_threads;
  keep_spare(level);
  current_call = call;
  lock.unlock();
  {
    const py::gil_scoped_acquire locked;
    note_begin(level, thread);
    notice->call();
  }
  lock.lock();
  current_call = nullptr;
  call->is_running = false;
  --level.busy_threads;
  if (level.leader == thread) level.is_leader_busy = false;
  if (--open_notices_ == 0 && is_stopping_) none_open_.notify_one();
}

// Only now: to wait for the interpreter's lock is not to be stuck.
void DoneNotices::note_begin(Level& level, std::size_t thread) {
  const std::lock_guard lock(mutex_);
  if (level.leader != thread) return;
  level.leader_busy_since = Clock::now();
  if (!level.posted.empty()) level.for_standby.notify_one();
}

void DoneNotices::stop() {
  unlocked([&] {
    {
      std::unique_lock lock(mutex_);
      is_stopping_ = true;
      none_open_.wait(lock, [&] { return open_notices_ == 0; });
    }
    for (Level& level : levels_) {
      level.for_leader.notify_all();
      level.for_standby.notify_all();
      for (std::thread& thread : level.threads) thread.join();
    }
  });
}

}  // namespace square::python
