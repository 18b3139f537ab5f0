#include "transport/worker_threads.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace square {

WorkerThreads::WorkerThreads(const std::string& name, int count) {
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([this, thread = fmt::format("{}-{}", name, i)] {
      pthread_setname_np(pthread_self(), thread.c_str());
      run();
    });
    ids_.push_back(threads_.back().get_id());
  }
}

bool WorkerThreads::runs_here() const {
  return std::ranges::find(ids_, std::this_thread::get_id()) != ids_.end();
}

void WorkerThreads::work(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void WorkerThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    SQUARE_CHECK(thread.get_id() != std::this_thread::get_id(), "stop() was called by a task");
    if (thread.joinable()) thread.join();
  }
}

void WorkerThreads::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace square
