// Lets a neighbour's credit grow no faster than the link may carry blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "node/lifetime.h"
#include "square/clock.h"
#include "square/executor.h"
#include "transport/pacing/link_scheduler.h"
#include "transport/pacing/pacer.h"

namespace square {

// A tail that paces itself stays below the police's rate by this part, and never notices it.
inline constexpr double kPoliceHeadroom = 1.03;

// The head of a link takes care that its tail keeps to the plan. A slot of a stream's window
// that is free again is granted anew when its turn comes: by the schedule that the tail
// itself should use, guarantees first, then tenants by weight, at the link's rate. So a tail
// that ignores plan and pace is held to its windows, and to the rate that the others leave it;
// nobody waits for a turn while the link has rate to spare. Used on the node's strand.
class IngressPolice {
 public:
  IngressPolice(const Clock& clock, Executor& executor) : clock_(clock), executor_(executor) {}

  // Of the link; kUnlimited: every turn comes at once.
  void set_rate(double rate_bps);

  // `on_turn` says that one slot may be granted; it must not add or remove flows.
  FlowId add_flow(const FlowShare& share, std::function<void()> on_turn);
  void remove_flow(FlowId flow);
  // The flow wants a slot for so many bits: its turn comes, perhaps in this call.
  void ask(FlowId flow, double bits);

 private:
  struct Flow {
    std::function<void()> on_turn;
    // Slots asked for and not granted, and what blocks in them took: each costs the average.
    std::uint64_t slots = 0;
    double bits = 0;
  };

  void show_head(FlowId id, const Flow& flow);
  void take_turns();
  void wait_until(TimePoint when);

  const Clock& clock_;
  Executor& executor_;
  LinkScheduler scheduler_;
  Pacer pacer_{kUnlimited};
  std::map<FlowId, Flow> flows_;
  bool was_backlogged_ = false;
  bool is_taking_ = false;
  Executor::TimerId timer_ = 0;
  Lifetime life_;
};

}  // namespace square
