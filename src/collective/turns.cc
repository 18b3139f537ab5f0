#include "collective/turns.h"

#include <future>
#include <memory>
#include <utility>

namespace square {

void Turns::run(Turn turn) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(turn));
  if (!is_running_) run_all(lock);
}

void Turns::run_now(const Turn& turn) {
  std::unique_lock lock(mutex_);
  if (is_running_ && runner_ == std::this_thread::get_id()) {
    lock.unlock();
    return turn();
  }
  const auto over = std::make_shared<std::promise<void>>();
  waiting_.emplace_front([&turn, over] {
    turn();
    over->set_value();
  });
  if (!is_running_) return run_all(lock);
  lock.unlock();
  over->get_future().wait();
}

void Turns::run_all(std::unique_lock<std::mutex>& lock) {
  const auto self = shared_from_this();  // a turn may drop the last other one
  is_running_ = true;
  runner_ = std::this_thread::get_id();
  while (!waiting_.empty()) {
    Turn turn = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    turn();
    turn = nullptr;  // what it held may call back
    lock.lock();
  }
  is_running_ = false;
  // Not `self` under its own lock.
  lock.unlock();
}

}  // namespace square
