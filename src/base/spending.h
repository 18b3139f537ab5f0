// How long computations obey a Budget: they look at it, deep inside their loops.
//
// What must look lies a dozen calls below what was given the budget, in functions that have no
// other error, and some of their callers take an error for "then do without". So the budget of a
// thread's computation is found by the thread, and a look that finds it spent throws to where it
// was given: nothing between the two can mistake it, and no signature grows. No exception leaves
// spend().
#pragma once

#include <type_traits>
#include <utility>

#include "square/budget.h"
#include "square/status.h"

namespace square {

namespace internal {

struct Spending {
  const Budget::State* budget = nullptr;
  const char* phase = "computing";
  const Spending* outer = nullptr;  // a part of which this is: over when that is
};

extern constinit thread_local Spending* spending;  // this thread's, while it has a budget

struct Spent {
  Status why;
};

// Throws Spent if it is.
void look_at(const Spending& here);
bool is_spent(const Spending& here);

// This thread computes within a budget for as long as this lives.
class SpendingScope {
 public:
  explicit SpendingScope(const Budget::State& budget)
      : here_{&budget, "computing", spending}, outer_(spending) {
    if (outer_ != nullptr) here_.phase = outer_->phase;
    spending = &here_;
  }
  SpendingScope(const SpendingScope&) = delete;
  SpendingScope& operator=(const SpendingScope&) = delete;
  ~SpendingScope() { spending = outer_; }

 private:
  Spending here_;
  Spending* outer_;
};

}  // namespace internal

// To be called in every loop whose passes together may take long, at least every few milliseconds.
// May throw what spend() catches; what it unwinds must not be used any more, unless it is as it was.
inline void look_at_budget() {
  if (internal::spending != nullptr) internal::look_at(*internal::spending);
}

// For code that nothing may be thrown through; look_at_budget() after it.
inline bool budget_is_spent() {
  return internal::spending != nullptr && internal::is_spent(*internal::spending);
}

// Says what is being done, in the words of "ran out of time while ...", for as long as it lives.
class Phase {
 public:
  explicit Phase(const char* words) {
    if (internal::spending == nullptr) return;
    here_ = internal::spending;
    outer_ = std::exchange(here_->phase, words);
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase() {
    if (here_ != nullptr) here_->phase = outer_;
  }

 private:
  internal::Spending* here_ = nullptr;
  const char* outer_ = nullptr;
};

// What `compute` returns, a Result; CANCELLED, or DEADLINE_EXCEEDED with the phase that it was in,
// soon after the budget is spent. Without an end to the budget one that is already being spent goes on.
// Within another it ends with that one, too: a look after it tells.
template <typename Compute>
std::invoke_result_t<Compute> spend(const Budget& budget, Compute&& compute) {
  if (budget.state() == nullptr) return std::forward<Compute>(compute)();
  const internal::SpendingScope scope(*budget.state());
  try {
    look_at_budget();
    return std::forward<Compute>(compute)();
  } catch (const internal::Spent& spent) {
    return spent.why;
  }
}

}  // namespace square
