#include "ps/outer/block_threads.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

#include "transport/worker_threads.h"

namespace square::ps {

BlockThreads::BlockThreads(unsigned threads, unsigned most)
    : helpers_(std::clamp(threads == 0 ? std::thread::hardware_concurrency() : threads, 1U, most) - 1) {
  if (helpers_ > 0) threads_ = std::make_unique<WorkerThreads>("outer", static_cast<int>(helpers_));
}

BlockThreads::~BlockThreads() = default;

void BlockThreads::each(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take_all = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t helpers = count == 0 ? 0 : std::min<std::size_t>(helpers_, count - 1);
  // Shared: a helper may be in count_down() yet when wait() returns.
  const auto done = std::make_shared<std::latch>(static_cast<std::ptrdiff_t>(helpers));
  for (std::size_t i = 0; i < helpers; ++i) {
    threads_->work([&take_all, done] {
      take_all();
      done->count_down();
    });
  }
  take_all();
  done->wait();
}

}  // namespace square::ps
