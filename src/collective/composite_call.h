// An operation of several steps: what one step brings is worked on before the next one begins.
//
// Its steps are a state machine: the end of each begins what may come next. No thread waits for them. They
// run in turns of their communicator (composite_calls.h), on the threads that end operations and arithmetic.
// A sketch:
//
//   class Doubled final : public CompositeSteps {
//     void begin(CompositeRun& run) override {
//       run.begin(receive_part(), [&] { run.work(size, [&] { return add(); }, [&] { send(run); }); });
//     }
//     void send(CompositeRun& run) { run.begin(send_part(), [&] { run.finish(Status::ok()); }); }
//   };
//
// Steps use collectives with a channel of their own, so the group's other calls need not wait.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collective/group_calls.h"
#include "collective/work.h"
#include "square/communicator.h"
#include "square/status.h"

namespace square {

// What the steps see of their run. Where a step fails, the operation was cancelled, or its timeout is over,
// no `then` runs any more and what is begun is ignored. None runs before the function that was given it
// returns.
class CompositeRun {
 public:
  virtual ~CompositeRun() = default;
  // Posts a part, with what is left of the operation's timeout. All members see it as a part of the one call.
  virtual void begin(Part part, std::function<void()> then = {}) = 0;
  // Runs `task`, arithmetic over about `bytes`, off the node's strand. The operation fails with its error.
  virtual void work(std::size_t bytes, std::function<Status()> task, std::function<void()> then) = 0;
  // Nothing more is begun: the operation is over when what was begun is. A failure ends that.
  virtual void finish(const Status& outcome) = 0;
  // Which call of the group this is.
  [[nodiscard]] virtual GroupCall call() const = 0;
};

// What they read and write must be the program's or their own: they are kept until the last of what they
// began is over. An exception fails the operation, with RESOURCE_EXHAUSTED where memory ran out.
class CompositeSteps {
 public:
  virtual ~CompositeSteps() = default;
  virtual void begin(CompositeRun& run) = 0;
};

struct CompositeOperation {
  std::string name;  // for messages: "ring all_reduce"
  CallKind kind = CallKind::kNone;
  Duration timeout;  // of all steps together, from the call on
  // All that any member's steps use. The first one tells the other members of a failure that no step
  // has seen: best one of all members.
  std::vector<GroupCollective> collectives;
  std::shared_ptr<CompositeSteps> steps;
};

class CompositeCall;

// The line that a call waits and runs in.
class CompositeLine {
 public:
  virtual ~CompositeLine() = default;
  // Any thread:
  // Runs it in a turn of the line.
  virtual void take_turn(std::function<void()> turn) = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual GroupCalls& group() = 0;
  // In a turn:
  // The others hear of a failure of the call.
  virtual void tell(const CompositeCall& call, const Status& cause) = 0;
  virtual void cancel(CompositeCall& call) = 0;
  // It is waited for from now on, kDrainTime at most.
  virtual void on_ending() = 0;
  // Right before the program hears of it.
  virtual void on_over(CompositeCall& call) = 0;
};

// Thread-safe as a Work; all else in turns of its line, which owns it while it is not over.
class CompositeCall final : public Work,
                            public CompositeRun,
                            public std::enable_shared_from_this<CompositeCall> {
 public:
  // Precondition: the operation has collectives.
  CompositeCall(CompositeOperation operation, const GroupCalls::Numbered& number, TimePoint begun_at,
                std::weak_ptr<CompositeLine> line);

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  [[nodiscard]] WorkProgress progress() const override;
  void cancel() override;

  void begin(Part part, std::function<void()> then) override;
  void work(std::size_t bytes, std::function<Status()> task, std::function<void()> then) override;
  void finish(const Status& outcome) override;
  [[nodiscard]] GroupCall call() const override { return number_.number; }

  [[nodiscard]] const GroupCalls::Numbered& number() const { return number_; }
  // That tells the other members of a failure.
  [[nodiscard]] const GroupCollective& collective() const { return collective_; }
  [[nodiscard]] TimePoint deadline() const { return deadline_; }
  // Until when its steps are waited for.
  [[nodiscard]] TimePoint patience() const;
  // What is said of an operation that was cancelled, or is too late.
  [[nodiscard]] Status was(const char* what) const;
  [[nodiscard]] Status is_late() const;

  // Its turn has come: the steps begin.
  void start();
  // Cancels its steps, whose words are better than these.
  void stop(const Status& why);
  // Tells the others first, so that this is the cause everywhere and not that steps were cancelled.
  void fail(const Status& cause);
  // Ends it, if it is to end and nothing is under way, or no patience is left.
  void end_if_over();
  // Without its steps.
  void end(const Status& outcome);

 private:
  // What steps, and what comes of them, say. An exception is the operation's failure.
  void run_steps(const std::function<void()>& steps);
  // Of a step, or of arithmetic.
  void on_end(const Status& outcome, const std::function<void()>& then);
  void add_step(const std::shared_ptr<Work>& step);
  void cancel_steps();

  const std::string name_;
  const GroupCalls::Numbered number_;
  const GroupCollective collective_;
  const Duration timeout_;
  const TimePoint deadline_;
  const std::weak_ptr<CompositeLine> line_;
  std::shared_ptr<CompositeSteps> machine_;
  std::size_t under_way_ = 0;  // steps
  std::size_t at_work_ = 0;
  bool is_finished_ = false;  // nothing more is begun
  std::optional<Status> failure_;
  std::optional<Status> stopped_;
  std::optional<TimePoint> ending_since_;
  mutable std::mutex mutex_;                  // of what follows
  std::vector<std::shared_ptr<Work>> steps_;  // that run or have failed
  WorkProgress past_;                         // of steps that are over
  Outcome outcome_;
};

}  // namespace square
