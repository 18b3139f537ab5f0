// Threads that share the blocks of a loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace square {
class WorkerThreads;
}

namespace square::ps {

// Not thread-safe: one each() at a time.
class BlockThreads {
 public:
  // That compute, the caller's included; 0: one a processor, at most `most`. Preconditions: threads <= most.
  BlockThreads(unsigned threads, unsigned most);
  ~BlockThreads();
  BlockThreads(const BlockThreads&) = delete;
  BlockThreads& operator=(const BlockThreads&) = delete;

  // work(0), ..., work(count - 1), in any order and several at once. Blocks until all are done; `work` throws
  // nothing.
  void each(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  unsigned helpers_;
  std::unique_ptr<WorkerThreads> threads_;  // none where there are no helpers
};

}  // namespace square::ps
