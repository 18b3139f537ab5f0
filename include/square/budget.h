// What a computation may spend, and a way to stop it from another thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "square/clock.h"
#include "square/units.h"

namespace square {

// Copies are the same budget: cancelling one cancels all. Thread-safe; nothing blocks.
class Budget {
 public:
  struct State;

  // Without an end: no deadline, and nothing that could be cancelled. It costs nothing.
  Budget() = default;
  // Until it is cancelled.
  static Budget until_cancelled();
  // Until `deadline` of steady_clock(), or until it is cancelled.
  static Budget until(TimePoint deadline);
  // Until so much time from now, or until it is cancelled.
  static Budget within(Duration time);
  // Cancelled by the look after so many (see looks()): a test's deadline that no clock decides.
  static Budget of_looks(std::uint64_t looks);

  // What spends it returns CANCELLED soon after. Without effect on one without an end.
  void cancel() const;
  [[nodiscard]] bool is_cancelled() const;
  // How often a computation looked whether it may go on.
  [[nodiscard]] std::uint64_t looks() const;

  // For the library's own code.
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  explicit Budget(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;  // none: without an end
};

}  // namespace square
