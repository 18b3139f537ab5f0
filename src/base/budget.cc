#include "square/budget.h"

#include <fmt/format.h>

#include <atomic>
#include <limits>
#include <optional>

#include "base/spending.h"

namespace square {

struct Budget::State {
  std::optional<TimePoint> deadline;
  std::uint64_t max_looks = std::numeric_limits<std::uint64_t>::max();
  mutable std::atomic<std::uint64_t> looks = 0;
  std::atomic<bool> cancelled = false;

  // Spent once, it stays so: looks only add up, and time goes on.
  [[nodiscard]] bool is_cancelled() const {
    return cancelled.load(std::memory_order_relaxed) || looks.load(std::memory_order_relaxed) > max_looks;
  }
  [[nodiscard]] bool is_late() const { return deadline.has_value() && steady_clock().now() >= *deadline; }
};

Budget Budget::until_cancelled() { return Budget(std::make_shared<State>()); }

Budget Budget::until(TimePoint deadline) {
  auto state = std::make_shared<State>();
  state->deadline = deadline;
  return Budget(std::move(state));
}

Budget Budget::within(Duration time) { return until(steady_clock().now() + time); }

Budget Budget::of_looks(std::uint64_t looks) {
  auto state = std::make_shared<State>();
  state->max_looks = looks;
  return Budget(std::move(state));
}

void Budget::cancel() const {
  if (state_ != nullptr) state_->cancelled.store(true, std::memory_order_relaxed);
}

bool Budget::is_cancelled() const { return state_ != nullptr && state_->is_cancelled(); }

std::uint64_t Budget::looks() const {
  return state_ == nullptr ? 0 : state_->looks.load(std::memory_order_relaxed);
}

namespace internal {

constinit thread_local Spending* spending = nullptr;

bool is_spent(const Spending& here) {
  here.budget->looks.fetch_add(1, std::memory_order_relaxed);
  return here.budget->is_cancelled() || here.budget->is_late() ||
         (here.outer != nullptr && is_spent(*here.outer));
}

void look_at(const Spending& here) {
  if (!is_spent(here)) return;
  if (!here.budget->is_cancelled() && !here.budget->is_late())
    return look_at({here.outer->budget, here.phase, here.outer->outer});
  if (here.budget->is_cancelled()) throw Spent{cancelled(fmt::format("while {}", here.phase))};
  throw Spent{deadline_exceeded(
      fmt::format("ran out of time while {}; allow more time, or ask for less at once", here.phase))};
}

}  // namespace internal

}  // namespace square
