// Copies, and members' arithmetic, that would keep an event loop from its sockets for too long.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "gateway/event_loop.h"
#include "transport/worker_threads.h"

namespace square::gateway {

// Smaller copies are made by the loop's thread.
inline constexpr std::size_t kCopiedAtOnceBytes = std::size_t{256} << 10U;
// What one thread takes of a larger one before the others have their turn.
inline constexpr std::size_t kCopyPieceBytes = std::size_t{4} << 20U;
inline constexpr int kMaxCopyThreads = 2;

class Copier {
 public:
  explicit Copier(std::shared_ptr<EventLoop> loop);

  // Runs `work` here or on a copying thread, then `then` on the loop.
  void run(std::size_t size_bytes, std::function<void()> work, std::function<void()> then);
  // The same for a copy, on the loop's thread, by several threads at once if it is large. `owner` lives until
  // then.
  void copy(std::span<const std::byte> from, std::byte* to, std::shared_ptr<const void> owner,
            std::function<void()> then);

  // Waits for the copies under way. Not from a copying thread.
  void stop() { threads_.stop(); }

 private:
  const std::shared_ptr<EventLoop> loop_;
  WorkerThreads threads_;
};

}  // namespace square::gateway
