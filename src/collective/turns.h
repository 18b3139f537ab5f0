// A strand without a thread: what it is given runs one after the other, on the threads that give it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace square {

// Thread-safe; always held by a shared_ptr.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  using Turn = std::function<void()>;

  // Runs it after those before it: here, before this returns, or on the thread that runs another one now.
  // Must not block.
  void run(Turn turn);
  // Returns once it is over: before those that wait, and at once where a turn of this thread asks.
  void run_now(const Turn& turn);

 private:
  void run_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::deque<Turn> waiting_;
  bool is_running_ = false;
  std::thread::id runner_;
};

}  // namespace square
