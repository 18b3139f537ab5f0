#include "done_notices.h"

#include <pthread.h>

#include <atomic>

namespace square::python {

// Let go without a call, it stays: the interpreter may be gone.
struct DoneNotices::Notice {
  py::function callback;

  explicit Notice(py::function call) : callback(std::move(call)) {}
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

DoneNotices& DoneNotices::instance() {
  // A forked child has none of its parent's threads, and perhaps a mutex that one of them held.
  static const int watches_forks = [] {
    current = new DoneNotices;
    return pthread_atfork(nullptr, nullptr, [] { current = new DoneNotices; });
  }();
  static_cast<void>(watches_forks);
  return *current;
}

void DoneNotices::prepare(Notices& waiting, py::function callback) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable() && !is_stopping_) thread_ = std::thread([this] { run(); });
  waiting.push_back(std::make_shared<Notice>(std::move(callback)));
}

void DoneNotices::post(Notices& waiting) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  posted_.push_back(std::move(waiting.front()));
  waiting.pop_front();
  changed_.notify_one();
}

void DoneNotices::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_stopping_ || !posted_.empty(); });
    if (posted_.empty()) return;
    const auto notices = std::exchange(posted_, {});
    lock.unlock();
    {
      const py::gil_scoped_acquire locked;
      for (const auto& notice : notices) notice->call();
    }
    lock.lock();
  }
}

void DoneNotices::stop() {
  unlocked([&] {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  });
}

}  // namespace square::python
