// Copies that would keep an event loop from its sockets for too long.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "collective/gateway/event_loop.h"
#include "square/thread_executor.h"

namespace square::gateway {

// Smaller copies are made by the loop's thread.
inline constexpr std::size_t kCopiedAtOnceBytes = std::size_t{256} << 10U;

class Copier {
 public:
  explicit Copier(std::shared_ptr<EventLoop> loop) : loop_(std::move(loop)) {}

  // On the loop's thread. Runs `work` here or on the copying thread, then `then` on the loop.
  void copy(std::size_t size_bytes, std::function<void()> work, std::function<void()> then) {
    if (size_bytes <= kCopiedAtOnceBytes) {
      work();
      return loop_->post(std::move(then));
    }
    executor_.work([loop = loop_, work = std::move(work), then = std::move(then)]() mutable {
      work();
      loop->post(std::move(then));
    });
  }

  // Waits for the copies under way. Not from the copying thread.
  void stop() { executor_.stop(); }

 private:
  const std::shared_ptr<EventLoop> loop_;
  ThreadExecutor executor_;
};

}  // namespace square::gateway
