// Operations of several steps: what one step brings is worked on before the next one begins.
//
// A Communicator has one thread for them, which starts with the first. It runs one after the
// other, in the order of the calls: all members call in one order, so they meet. The body of an
// operation runs on that thread. It begins steps, of which several may be under way, and waits
// for them; it never runs on a node's strand, and blocks in CompositeRun::wait() only. A sketch:
//
//   return thread.start({"ring all_reduce", CallKind::kRingAllReduce, timeout, collectives,
//                        [=](CompositeRun& run) -> Status {
//                          SQUARE_ASSIGN_OR_RETURN(const auto step, run.begin({part}));
//                          SQUARE_RETURN_IF_ERROR(run.wait(step));
//                          ...  // add, decompress, begin the next one
//                          return Status::ok();
//                        }});
//
// Steps use collectives with a channel of their own, so the group's other calls need not wait.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective/group_calls.h"
#include "square/communicator.h"
#include "square/status.h"

namespace square {

// What the body of an operation sees of its run. For the thread that runs it.
class CompositeRun {
 public:
  virtual ~CompositeRun() = default;
  // Posts the parts of one step, with what is left of the operation's timeout. All members see
  // them as parts of the one call. Errors: the first cause, if the group has failed.
  virtual Result<std::shared_ptr<Work>> begin(std::vector<Part> parts) = 0;
  // Blocks until the step is over and returns its outcome: return a failure as it is. The operation
  // waits for steps that its body did not wait for.
  virtual Status wait(const std::shared_ptr<Work>& step) = 0;
  // OK, or why the operation must end: CANCELLED, DEADLINE_EXCEEDED. For long work between steps.
  [[nodiscard]] virtual Status check() const = 0;
  // Which call of the group this is.
  [[nodiscard]] virtual GroupCall call() const = 0;
};

struct CompositeOperation {
  std::string name;  // for messages: "ring all_reduce"
  CallKind kind = CallKind::kNone;
  Duration timeout;  // of all steps together, from start() on
  // All that any member's steps use. The first one tells the other members of a failure that no step
  // has seen: best one of all members.
  std::vector<GroupCollective> collectives;
  // What the steps read and write must be the program's, or owned by what this captured (shared
  // pointers): it is kept until its last step is over. A failure ends the group; an exception is one,
  // RESOURCE_EXHAUSTED where memory ran out.
  std::function<Status(CompositeRun&)> body;
};

// Thread-safe.
class CompositeThread {
 public:
  // Operations that wait behind the one that runs.
  static constexpr std::size_t kMaxWaiting = CallLimits{}.waiting;

  // The group's node must outlive the thread.
  explicit CompositeThread(std::shared_ptr<GroupCalls> group, std::size_t max_waiting = kMaxWaiting);
  // Ends what runs and what waits with CANCELLED, within Node::kDrainTime, and the thread. On that
  // thread itself, in a notice of an end, it returns at once; the node is not touched after that.
  ~CompositeThread();
  CompositeThread(const CompositeThread&) = delete;
  CompositeThread& operator=(const CompositeThread&) = delete;

  // Registers what is not yet, takes the number of the call and returns; blocks as GroupCalls::call()
  // does. The Work is over when all steps are: within the timeout plus Node::kDrainTime, also
  // behind others. Its cancel() ends the steps under way, or the waiting. Errors: those of
  // GroupCalls::call(); RESOURCE_EXHAUSTED for more than `max_waiting`, and the call does not count.
  Result<std::shared_ptr<Work>> start(CompositeOperation operation);

  // Nothing happens before a step that is under way ends: for tests under virtual time.
  [[nodiscard]] bool is_resting() const;

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with steps that are given up
};

}  // namespace square
