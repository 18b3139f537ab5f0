// A member's operations of several steps: they run one after the other, in the order of the calls. All
// members call in one order, so they meet.
#pragma once

#include <cstddef>
#include <memory>

#include "collective/composite_call.h"
#include "collective/group_calls.h"
#include "square/communicator.h"
#include "square/status.h"

namespace square {

// Thread-safe.
class CompositeCalls {
 public:
  // Operations that wait behind the one that runs.
  static constexpr std::size_t kMaxWaiting = CallLimits{}.waiting;

  // The group's node must outlive it.
  explicit CompositeCalls(std::shared_ptr<GroupCalls> group, std::size_t max_waiting = kMaxWaiting);
  // What waits has ended with CANCELLED. What runs does so within DataPlane::kDrainTime, with its steps, as
  // any operation does whose communicator is gone. Waits for a turn that another thread runs now.
  ~CompositeCalls();
  CompositeCalls(const CompositeCalls&) = delete;
  CompositeCalls& operator=(const CompositeCalls&) = delete;

  // Registers what is not yet, takes the number of the call and returns; blocks as GroupCalls::call()
  // does. The Work is over when all steps are: within the timeout plus DataPlane::kDrainTime, also
  // behind others. Its cancel() ends the steps under way, or the waiting. Errors: those of
  // GroupCalls::call(); RESOURCE_EXHAUSTED for more than `max_waiting`, and the call does not count.
  Result<std::shared_ptr<Work>> start(CompositeOperation operation);

 private:
  class Line;
  const std::shared_ptr<Line> line_;  // shared with what is under way
};

}  // namespace square
